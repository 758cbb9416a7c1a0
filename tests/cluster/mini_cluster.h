#ifndef COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cluster/tf_config.h"
#include "tests/cluster/log_lines.h"

namespace cohort {

class FaultProxy;

enum class TaskRole { kChief, kWorker, kPs, kEvaluator };
const char* TaskRoleName(TaskRole role);

using TaskFlags = std::vector<std::string>;  // "--name", "value"

struct MiniClusterOptions {
  int servers = 2;
  int workers = 3;
  std::string job_yaml;                 // the text of the job file
  std::string directory;                // job.yaml, checkpoints/, logs/, the apply logs; made
  std::string data_dir;                 // the tasks' COHORT_DATA_DIR
  std::map<TaskRole, TaskFlags> flags;  // for every task of a role
  std::string checkpoint_dir;           // "": <directory>/checkpoints
  // Working directories of the processes of a role; none: that of the test.
  std::map<TaskRole, std::string> working_directory;
  std::string evaluator_address;  // in the tasks' TF_CONFIG; "": none
  bool proxied = false;           // every worker and server has a proxy in front of it
  bool unix_sockets = false;      // workers may bypass the proxies over unix sockets
  // The workers are replicas of multi_worker_mirrored, which own the variables: no servers. Only
  // for the body of processes.
  bool replicas = false;
  int added_servers = 0;  // the last ones: only their own TF_CONFIG has them
};

// A whole cluster under a test's control: one API, two bodies. Tests run against both.
//
//   InProcess  each role is an object of this process, with real gRPC on loopback; Kill destroys it
//   Processes  the daemons of the build tree; Kill is SIGKILL
//
// No wait polls: the end of a task is a file descriptor, and inotify watches files.
class MiniCluster {
 public:
  enum class Body { kInProcess, kProcesses };
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(Body body, MiniClusterOptions options);
  virtual ~MiniCluster();

  // Starts a task, or restarts it after its end, at the same address. `flags` are added to those of
  // the options; a --checkpoint_dir replaces theirs. A chief of index 1 is a second process for the
  // same task. A worker of an index that the options do not have is in no TF_CONFIG: it gets --join
  // from the caller.
  virtual absl::Status Start(TaskRole role, int index, const TaskFlags& flags = {}) = 0;
  // All servers, workers, then the chief.
  absl::Status StartAll();

  virtual absl::Status Kill(TaskRole role, int index) = 0;
  virtual bool Running(TaskRole role, int index) = 0;

  // The exit code of a task that ends by itself (128 + n after signal n). Errors: DeadlineExceeded
  // with the last lines of its log if it does not end.
  absl::StatusOr<int> WaitForExit(TaskRole role, int index, std::chrono::seconds limit);
  // Waits until the chief has reported at least this many finished training steps.
  absl::Status WaitForSteps(uint64_t steps, std::chrono::seconds limit);
  // Waits for the next line of the task's log that contains all of `texts`, and returns it: a line
  // of its current incarnation, after the line that the last call returned. Errors:
  // DeadlineExceeded with the last lines of the log, also if the task has ended.
  absl::StatusOr<std::string> WaitForLog(TaskRole role, int index,
                                         const std::vector<std::string>& texts,
                                         std::chrono::seconds limit);

  // The last `lines` lines of a task's log, or all if it has fewer.
  std::string LogTail(TaskRole role, int index, int lines) const;
  std::string LogFile(TaskRole role, int index) const;

  const MiniClusterOptions& options() const { return options_; }
  std::string job_file() const { return options_.directory + "/job.yaml"; }
  std::string checkpoint_dir() const;
  std::string log_dir() const { return options_.directory + "/logs"; }
  // The tasks' $XDG_RUNTIME_DIR.
  std::string runtime_dir() const { return options_.directory + "/run"; }
  // One file per server, or replica; all incarnations of the server append to it.
  std::string apply_log(int ps) const;
  std::vector<std::string> apply_logs() const;

  // The port that the task itself listens on, behind its proxy.
  int port(TaskRole role, int index) const { return ports_.at({role, index}); }
  // The proxy of a worker (only the chief uses it), of a server (the chief: control; workers: data)
  // or of a replica (both).
  FaultProxy* proxy(TaskRole role, int index) const { return proxies_.at({role, index}).get(); }

 protected:
  using Key = std::pair<TaskRole, int>;

  explicit MiniCluster(MiniClusterOptions options);
  absl::Status StartProxies();
  // The command line of a task, without the program.
  std::vector<std::string> Arguments(TaskRole role, int index, const TaskFlags& flags) const;
  std::string TfConfig(TaskRole role, int index) const;
  // Start calls this: WaitForLog then reads what is written from now on.
  void BeginLife(TaskRole role, int index);
  // Readable once the task has ended; -1 if it was never started.
  virtual int EndFd(TaskRole role, int index) = 0;
  // The exit code of a task that has ended.
  virtual int ExitCode(TaskRole role, int index) = 0;

  MiniClusterOptions options_;

 private:
  std::map<Key, int> ports_;
  std::map<Key, std::unique_ptr<FaultProxy>> proxies_;
  std::map<Key, int64_t> read_until_;  // offset in the log up to which WaitForLog has read
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_MINI_CLUSTER_H_
