#ifndef COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_TASK_H_
#define COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_TASK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/cluster/cluster_spec.h"
#include "common/exchange/local_server.h"

namespace cohort {

// The end of a task: a file descriptor that becomes readable, and the exit code. Thread-safe.
class ExitEvent {
 public:
  ExitEvent();

  int fd() const { return fd_.get(); }
  // The first call counts.
  void Set(int exit_code);
  std::optional<int> exit_code();

 private:
  const UniqueFd fd_;
  Mutex mu_;
  std::optional<int> exit_code_ ABSL_GUARDED_BY(mu_);
};

// A task as an object of this process: what main.cc builds, without the process around it. The
// destructor ends the task at once; for its peers this looks like a kill.
class InProcessTask {
 public:
  virtual ~InProcessTask() = default;
  // The TCP port that it serves; -1 if it serves none.
  virtual int port() const { return -1; }
  // Set when the task ends by itself. It may outlive the task.
  const std::shared_ptr<ExitEvent>& end() const { return end_; }

 private:
  const std::shared_ptr<ExitEvent> end_ = std::make_shared<ExitEvent>();
};

// What the process of a task would get.
struct InProcessTaskOptions {
  std::vector<std::string> arguments;  // the command line, without the program
  std::string tf_config;
  std::string log_file;
  bool log_to_stderr = true;  // in addition to the file
  std::string data_dir;       // $COHORT_DATA_DIR
  std::string runtime_dir;    // $XDG_RUNTIME_DIR
  // Servers add themselves here, and workers call those that they find. Null: over sockets.
  std::shared_ptr<LocalServers> local_servers;
  int threads = 0;  // if the command line has no --threads; 0: a share of the cores
};

using StartedTask = absl::StatusOr<std::unique_ptr<InProcessTask>>;

// Starts a worker or a parameter server, which serves when this returns. Errors: InvalidArgument
// for a wrong command line, those of MakeRoleContext and of the task's Start; Unimplemented for a
// crash point, which would end the whole process.
StartedTask StartInProcessServer(Role role, const InProcessTaskOptions& options);

// Starts a replica (deploy/replica): a worker that owns a part of the variables. TF_CONFIG has only
// workers. `local_servers` is ignored: a replica calls its own part directly. Errors: as
// StartInProcessServer.
StartedTask StartInProcessReplica(const InProcessTaskOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_TASK_H_
