#ifndef COHORT_COMMON_RPC_TASK_SERVED_TASK_H_
#define COHORT_COMMON_RPC_TASK_SERVED_TASK_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/cluster/role_flags.h"
#include "common/cluster/security.h"
#include "common/cluster/task_run.h"
#include "common/rpc/stream/stream_server.h"

namespace cohort {

class AdminServer;
class LocalServers;

// What a task gets from its process, beside flags and TF_CONFIG.
struct TaskEnvironment {
  std::string data_dir;                         // $COHORT_DATA_DIR
  std::string runtime_dir;                      // $XDG_RUNTIME_DIR
  std::shared_ptr<LocalServers> local_servers;  // those of this process; may be null
  std::function<void()> on_done;  // called on any thread when the chief ends the job; may be null
};

// The options of a task that serves a chief.
struct ServedTaskOptions {
  // "host:port", "unix:/path"; empty: another task of this process serves its part.
  std::vector<std::string> listen;
  std::string admin_address;  // "": no admin port
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  int threads = 1;
  int index = 0;
  uint64_t incarnation = 0;
  std::string host_id;
  std::string unix_socket;    // the path in `listen` that the chief reports to workers; "": none
  std::string address;        // the one in TF_CONFIG that the chief dials; for messages
  std::string chief_address;  // named in messages while the task waits for the chief; may be ""
  Duration chief_timeout = std::chrono::seconds(10);
  Duration chief_wait = std::chrono::seconds(300);  // zero: no deadline
  // How long running work may take to stop, after it has been asked to.
  Duration stop_wait = std::chrono::seconds(5);
  std::shared_ptr<LocalServers> local_servers;  // those of this process; may be null
  Logger* log = nullptr;                        // outlives the task
  std::function<void()> on_done;  // called on a thread of the task when the chief ends the job
};

// The fields that all tasks derive from flags and TF_CONFIG in the same way: all but unix_socket.
ServedTaskOptions MakeServedTaskOptions(const ServedFlags& flags, const RoleContext& context,
                                        const TaskEnvironment& environment);

// What one of the tasks that share an address serves.
struct ServedPart {
  StreamServer::Methods methods;
  std::vector<std::string> control_methods;  // StreamServer::Options::control_methods
  std::string health_service;
  int threads = 1;  // that serve the other methods
  std::function<std::string()> metrics;
  // Its part of /readyz; null: it is ready when it listens.
  std::function<std::string()> readiness;
  std::function<std::string()> status;
};

// The shell of a task: its ports, the wait for a chief, and the end of the job.
class ServedTask {
 public:
  // All arguments outlive the task. It counts refused peers in `registry`.
  ServedTask(const ServedTaskOptions* options, const Clock* clock, MetricsRegistry* registry);
  ~ServedTask();

  // Serves all parts. /statusz is that of the first one. `stream` has options of the transport and
  // of the threads. Does nothing if the options have no addresses. Errors: those of StreamServer
  // and AdminServer (a taken port).
  absl::Status Listen(StreamServer::Options stream, std::vector<ServedPart> parts);

  int port() const { return server_ == nullptr ? -1 : server_->port(); }
  int admin_port() const;
  std::vector<uint64_t> Turns() const;
  // See StreamServer::loops. None without addresses.
  std::vector<CompletionLoop*> loops() const;

  // Logs the wait for the chief. Errors: those of WaitForChief.
  absl::Status Tick(bool chief_connected);
  // "waiting for the chief at host:port".
  std::string WaitingLine() const;
  // The chief ends the job. Thread-safe.
  void SetEnd(bool job_finished, const std::string& reason);
  std::optional<TaskEnd> end() const;

  // What /healthz says; "": the task works. Thread-safe.
  void SetHang(const std::string& why);

  // The health service reports that the task does not serve. Open streams stay.
  void StopServing();
  // Closes all streams with `why`, and waits for their ends.
  void CloseStreams(const absl::Status& why);
  // Ends at once, as a kill would for the peers, which see `why`.
  void Kill(const absl::Status& why);

 private:
  const ServedTaskOptions& options_;
  MetricsRegistry* const registry_;
  WaitList waiting_;  // for the chief; used by the thread that calls Tick
  mutable Mutex mu_;
  std::optional<TaskEnd> end_ ABSL_GUARDED_BY(mu_);
  std::string hang_ ABSL_GUARDED_BY(mu_);
  std::vector<ServedPart> parts_;         // without methods; constant once Listen has returned
  std::unique_ptr<StreamServer> server_;  // null without addresses
  std::unique_ptr<AdminServer> admin_;    // may be null
};

// A program that is one task.
struct ServedProgram {
  const char* name;  // "cohort-ps"
  const char* help;
  Role role = Role::kWorker;
  const char* title;           // "parameter server"
  bool drains_at_end = false;  // work that runs when the job ends may take --drain_timeout_s, too
};
using StartServedTask = std::function<absl::StatusOr<std::unique_ptr<ServingTask>>(
    const RoleContext& context, const TaskEnvironment& environment)>;

// The main function of such a program: reads TF_CONFIG, starts the task, runs it to its end, and
// returns the exit code. `add` binds all flags, among them `flags`.
int RunProgram(int argc, char** argv, const ServedProgram& program,
               const std::function<void(FlagSet*)>& add, const ServedFlags& flags,
               const StartServedTask& start);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_TASK_SERVED_TASK_H_
