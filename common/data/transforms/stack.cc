// Stack: several columns side by side.
#include <algorithm>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenStack(const Config&, std::span<const FeatureType> inputs) {
  std::vector<DType> dtypes;
  for (const FeatureType& input : inputs) {
    if (input.dims != inputs[0].dims) {
      return InvalidArgument("columns \"{}\" {} and \"{}\" {} cannot be stacked", inputs[0].name,
                             DimsToString(inputs[0].dims), input.name, DimsToString(input.dims));
    }
    dtypes.push_back(input.dtype);
  }
  const bool equal =
      std::all_of(dtypes.begin(), dtypes.end(), [&](DType d) { return d == dtypes[0]; });
  RecordTransform transform;
  transform.dtype = equal ? dtypes[0] : DType::kFloat32;
  transform.dims = inputs[0].dims;
  transform.dims.push_back(static_cast<int64_t>(inputs.size()));
  transform.apply = [dtypes, to = transform.dtype](
                        const RecordContext&, std::span<const std::span<const std::byte>> parts,
                        std::span<std::byte> output) {
    const size_t elements = parts[0].size() / SizeOf(dtypes[0]);
    std::byte* out = output.data();
    for (size_t i = 0; i < elements; ++i) {
      for (size_t p = 0; p < parts.size(); ++p, out += SizeOf(to)) {
        ConvertNumbers(dtypes[p], parts[p].data() + i * SizeOf(dtypes[p]), to, out, 1);
      }
    }
    return absl::OkStatus();
  };
  return transform;
}

}  // namespace

TransformClass StackTransform() {
  return {
      .schema = {.name = "Stack",
                 .doc = "Several `columns` side by side, along a new last axis. Several columns "
                        "of a transform without a class are this; other classes stack theirs in "
                        "the same way first."},
      .takes_columns = true,
      .open = OpenStack,
      .elementwise = true};
}

}  // namespace cohort
