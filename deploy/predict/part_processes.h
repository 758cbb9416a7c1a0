#ifndef COHORT_DEPLOY_PREDICT_PART_PROCESSES_H_
#define COHORT_DEPLOY_PREDICT_PART_PROCESSES_H_

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/os/child_process.h"
#include "deploy/predict/predict_options.h"
#include "deploy/predict/prediction_part.h"

namespace cohort {

// The processes of one prediction, `cohort-predict --part I/N` for each part. They end with this
// process, in whatever way it ends.
class PartProcesses {
 public:
  // Blocks SIGCHLD and the signals that end a program in this thread. The process must have no
  // other thread. `checkpoint` is the one that all parts read.
  static absl::StatusOr<std::unique_ptr<PartProcesses>> Create(const PredictOptions& options,
                                                               const std::string& checkpoint);

  // Starts the processes, and returns when all parts are whole. A process that may succeed in
  // another try (IsWorthAnotherTry), as after SIGKILL, is started again, up to kTries in all.
  // Errors: that of the first part that fails, with its text and exit code; Cancelled (exit 128 +
  // signal) for a signal that ends this program. The other processes are killed then.
  absl::Status Run();

 private:
  static constexpr int kTries = 3;

  struct Part {
    PartNumber number;
    std::unique_ptr<ChildProcess> process;  // null: it is whole
    int tries = 0;
  };

  PartProcesses(const PredictOptions& options, const std::string& checkpoint, UniqueFd signal_fd,
                UniqueFd null_fd);
  absl::Status Start(Part* part);
  // Waits for a signal.
  absl::Status WaitForEvent();
  absl::Status OnEnd(Part* part, int wait_status);
  absl::Status Failed(const Part& part, int wait_status) const;

  const PartFolder folder_;
  std::vector<std::string> command_;  // without --part
  const UniqueFd signal_fd_;
  const UniqueFd null_fd_;
  std::vector<Part> parts_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_PREDICT_PART_PROCESSES_H_
