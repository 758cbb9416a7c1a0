#ifndef COHORT_COMMON_MODEL_DATA_CHECK_H_
#define COHORT_COMMON_MODEL_DATA_CHECK_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>

namespace cohort {

namespace v1 {
class JobSpec;
}
class Dataset;
struct DataOptions;
struct BuiltModel;
struct JobFile;

// Class weights are for labels below it.
inline constexpr int64_t kMostWeightedClasses = 1 << 20;

// With `fit.class_weight: balanced`, sets the weights in the job: records / (classes * records of
// the class), as scikit-learn's compute_class_weight. A label is a number, or one-hot. Reads all
// labels. Errors: InvalidArgument for several labels, and for one that is no class.
absl::Status BalanceClasses(const Dataset& train, v1::JobSpec* job);

// Opens the training set, and sets in the job what transforms learn from it (ResolveVocabularies)
// and the weights of its classes (BalanceClasses). With `fit.validation_split` it is the first part
// of the records, and the rest is the validation set, as in Keras: sets both in the job. Errors:
// those of Dataset::Open, ResolveVocabularies and BalanceClasses; InvalidArgument if one of the
// parts has no records. A stream is opened at the first block of its first complete file, whose
// columns all files have: NotFound if there is none.
absl::StatusOr<std::shared_ptr<const Dataset>> OpenTraining(const DataOptions& options,
                                                            v1::JobSpec* job);

// Checks of a job against its open data; errors name the line of the job file.

// Returns the steps of an epoch over `records` training records. Errors: InvalidArgument if they
// are fewer than one batch.
absl::StatusOr<uint64_t> StepsPerEpoch(const JobFile& job, uint64_t records);

// Errors: InvalidArgument if the validation set lacks a column that the model needs, or has it with
// another shape or dtype.
absl::Status CheckValidation(const JobFile& job, const BuiltModel& model, const Dataset& train,
                             const Dataset& validation);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_DATA_CHECK_H_
