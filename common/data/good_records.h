#ifndef COHORT_COMMON_DATA_GOOD_RECORDS_H_
#define COHORT_COMMON_DATA_GOOD_RECORDS_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/data_options.h"

namespace cohort {

struct Argument;

// `on_corrupt` of a source whose records can be corrupt: "fail" or "skip".
Argument OnCorruptArgument();

// Checks every record of a source, which is opened with `on_corrupt: skip`, and returns those that
// are not corrupt, in their order. So an epoch holds each of them exactly once, and all processes
// that read the same files leave out the same ones. Logs how many are left out and why, and sets
// `warning` to that if there are any. `check` returns DataLoss for a corrupt record; other errors
// are returned. Several threads call it. Errors: DataLoss if no record is left.
absl::StatusOr<std::vector<uint64_t>> FindGoodRecords(
    std::string_view source, uint64_t records, const DataOptions& options,
    absl::FunctionRef<absl::Status(uint64_t record)> check, std::string* warning);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_GOOD_RECORDS_H_
