#ifndef COHORT_COMMON_MODEL_DATA_CHECK_H_
#define COHORT_COMMON_MODEL_DATA_CHECK_H_

#include <absl/status/statusor.h>

#include <cstdint>

namespace cohort {

class Dataset;
struct BuiltModel;
struct JobFile;

// What a job asks of its data, once they are open; errors name the job file's line.

// The steps of an epoch over `records` training records. Errors: InvalidArgument where these make
// no batch.
absl::StatusOr<uint64_t> StepsPerEpoch(const JobFile& job, uint64_t records);

// Errors: InvalidArgument where the validation set has not the columns that the model was built
// for.
absl::Status CheckValidation(const JobFile& job, const BuiltModel& model, const Dataset& train,
                             const Dataset& validation);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_DATA_CHECK_H_
