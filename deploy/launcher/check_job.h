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
// read, the shard plan (variable, shard, rows, bytes, ps), and hints where `sparse_update: lazy`
// would save work. If the data is not here, it uses the shapes of the Inputs and says so. Errors:
// those of the job file, the data and the model, naming line and key.
absl::StatusOr<std::string> CheckJob(const CheckOptions& options);

// Checks that the job has a validation set for an evaluator; without one the evaluator, and the run
// with it, would end at the first checkpoint. Returns OK for a job file that cannot be read, or
// only once (a pipe): the chief judges it. Errors: InvalidArgument (exit 65) naming the line.
absl::Status CheckForEvaluator(const std::string& job);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_
