#ifndef COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_
#define COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// The most tasks of one role; a larger number is taken for a typing error.
inline constexpr int kMostTasks = 1000;

// The flags of `cohort check`.
struct CheckOptions {
  std::string job;       // path
  int ps = 1;            // servers to plan for
  int threads = 1;       // of each server: how many tablets it may have
  std::string data_dir;  // COHORT_DATA_DIR
};

// Returns what `cohort check` prints: the model's summary as Keras shows it, what training would
// read, the shard plan (variable, shard, rows, bytes, ps), the bytes that each server exchanges in
// a step beside their limits, and the variables for which `sparse_update: lazy` would pay. Missing
// data is no error: the shapes that the Inputs declare are taken, and the text says so. Errors:
// those of the job file, the data and the model, with line and key; those of CheckMessageSizes.
absl::StatusOr<std::string> CheckJob(const CheckOptions& options);

// Checks that the job has a validation set for an evaluator; without one the evaluator, and the run
// with it, would end at the first checkpoint. Returns OK for a job file that cannot be read, or
// only once (a pipe): the chief judges it. Errors: InvalidArgument (exit 65) naming the line.
absl::Status CheckForEvaluator(const std::string& job);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_
