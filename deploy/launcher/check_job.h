#ifndef COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_
#define COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace cohort {

// The most tasks of one role. A larger number is probably a typing error.
inline constexpr int kMostTasks = 1000;

// The flags of `cohort check`.
struct CheckOptions {
  std::string job;       // path
  int ps = 1;            // number of servers
  int workers = 0;       // layers may name the devices that these have; 0: any
  int threads = 1;       // threads of each server: they limit its tablets
  std::string data_dir;  // COHORT_DATA_DIR
  bool strict = false;   // a warning is an error
};

// The result of `cohort check`.
struct CheckedJob {
  std::string text;
  std::vector<std::string> warnings;  // what would probably waste the run; the text has them too

  // Errors: InvalidArgument (exit 65) with `strict` if there are warnings.
  absl::Status Outcome(bool strict) const;
};

// Returns the output of `cohort check`: the model's summary as Keras shows it, the data that
// training would read, with the columns of a sample, the variables that begin with the job's
// initial weights, the batch of an update, what a device would compute, the shard plan (variable,
// shard, rows, bytes, ps), the bytes that each server exchanges in a step and their limits, and the
// variables that would benefit from `sparse_update: lazy`, and the warnings of JobRules. If data is
// missing, it uses the shapes that the Inputs declare, and the text reports that. Errors: those of
// the job file, the data and the model, with line and key; those of CheckMessageSizes.
absl::StatusOr<CheckedJob> CheckJob(const CheckOptions& options);

// Checks that the job has a validation set for an evaluator. Without one, the evaluator and the run
// would end at the first checkpoint. If the job file cannot be read, or only once (a pipe), it
// returns OK, because the chief checks the file. Errors: InvalidArgument (exit 65) naming the line.
absl::Status CheckForEvaluator(const std::string& job);

struct LocalOptions;

// Returns the line that names the directories of the job file that `cohort local` ignores because
// neither they nor --run_dir are flags of this run; "" if there are none.
std::string IgnoredDirectories(const LocalOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_CHECK_JOB_H_
