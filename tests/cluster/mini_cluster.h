#ifndef COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cohort {

enum class TaskRole { kChief, kWorker, kPs, kEvaluator };
const char* TaskRoleName(TaskRole role);

struct MiniClusterOptions {
  int servers = 2;
  int workers = 3;
  std::string job_yaml;   // the text of the job file
  std::string directory;  // job.yaml, checkpoints/, logs/, the apply logs; made when absent
  std::string data_dir;   // COHORT_DATA_DIR of the tasks
  std::vector<std::string> chief_flags;
};

// A whole cluster under a test's control: one API, two bodies. Tests run against both.
//
//   InProcess  every role is an object of this process, with real gRPC on loopback; Kill destroys
//   it. Processes  the daemons as they are shipped; Kill is SIGKILL.
class MiniCluster {
 public:
  enum class Body { kInProcess, kProcesses };
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(Body body, MiniClusterOptions options);
  virtual ~MiniCluster() = default;

  // Starts a task, or starts it again after its end, at the same address. `crash_point`
  // ("name:nth") is armed in it; "" = none (the in-process body refuses others).
  virtual absl::Status Start(TaskRole role, int index, const std::string& crash_point = "") = 0;
  // All servers, workers, then the chief.
  absl::Status StartAll();

  virtual absl::Status Kill(TaskRole role, int index) = 0;
  virtual bool Running(TaskRole role, int index) = 0;

  // The exit code of a task that ended by itself (128 + n after signal n). DeadlineExceeded, with
  // the last lines of its log, when it did not.
  virtual absl::StatusOr<int> WaitForExit(TaskRole role, int index, std::chrono::seconds limit) = 0;
  // Waits until the chief has reported at least this many finished training steps.
  absl::Status WaitForSteps(uint64_t steps, std::chrono::seconds limit);

  // The last `lines` lines of a task's log, or what there is.
  virtual std::string LogTail(TaskRole role, int index, int lines) = 0;

  const MiniClusterOptions& options() const { return options_; }
  std::string job_file() const { return options_.directory + "/job.yaml"; }
  std::string checkpoint_dir() const { return options_.directory + "/checkpoints"; }
  std::string log_dir() const { return options_.directory + "/logs"; }
  // One file per server; all lives of a server append to it.
  std::string apply_log(int ps) const;
  std::vector<std::string> apply_logs() const;

 protected:
  explicit MiniCluster(MiniClusterOptions options) : options_(std::move(options)) {}
  MiniClusterOptions options_;
};

// Limits on time, scaled by COHORT_TEST_TIME_SCALE.
std::chrono::seconds Scaled(std::chrono::seconds limit);
// Polls `done` until it holds or the limit has passed.
bool Eventually(std::chrono::seconds limit, const std::function<bool()>& done);

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_
