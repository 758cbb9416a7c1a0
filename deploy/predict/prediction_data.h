#ifndef COHORT_DEPLOY_PREDICT_PREDICTION_DATA_H_
#define COHORT_DEPLOY_PREDICT_PREDICTION_DATA_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort::v1 {
class DatasetSpec;
class JobSpec;
}  // namespace cohort::v1

namespace cohort {

// The records to predict, in their order: the file or folder `data` with the transforms of the job,
// or, if it is "", the validation set. Labels and weights are not made. Errors: exit 64 if there is
// no validation set; InvalidArgument if the source of the job takes no other file.
absl::StatusOr<v1::DatasetSpec> RecordsToPredict(const v1::JobSpec& job, const std::string& data);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PREDICTION_DATA_H_
