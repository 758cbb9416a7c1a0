// Stack: several columns side by side.
#include "common/data/numbers.h"
#include "common/data/stack_columns.h"

namespace cohort {
namespace {

absl::StatusOr<Column> StackNumberColumns(const Config& config, uint64_t records,
                                          std::span<const Column> inputs) {
  COHORT_ASSIGN_OR_RETURN(const Column stacked, StackColumns(inputs, records));
  return NumbersOf(stacked);
}

}  // namespace

TransformClass StackTransform() {
  return {
      .schema = {.name = "Stack",
                 .doc = "Several `columns` side by side, along a new last axis. Several columns "
                        "of a transform without a class are this; other classes stack theirs in "
                        "the same way first."},
      .takes_columns = true,
      .open = [](const Config& config,
                 std::span<const FeatureType> inputs) { return StackRecords(inputs); },
      .transform_columns = StackNumberColumns};
}

}  // namespace cohort
