#include "deploy/in_process/in_process_task.h"

#include <sys/eventfd.h>

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "deploy/in_process/attendant.h"
#include "deploy/replica/replica.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {
namespace {

// Returns the exit code once the chief has ended the job, or the task has failed.
std::optional<int> TickServer(const RoleContext& context, ServingTask* server) {
  const absl::Status status = server->Tick();
  if (!status.ok()) return LogEnd(context, status);
  const auto end = server->end();
  if (!end.has_value()) return std::nullopt;
  const absl::Status stopped = server->Shutdown(absl::OkStatus(), std::chrono::milliseconds(0));
  if (!stopped.ok()) return LogEnd(context, stopped);
  if (end->job_finished) return 0;
  return LogEnd(context, Unavailable("the chief ended the job: {}", end->reason));
}

// A worker, a parameter server or a replica.
class ServerTask : public InProcessTask {
 public:
  // `add` binds flags as AddWorkerFlags does. `start` gets the context, which outlives the server.
  template <typename Flags, typename Start>
  static StartedTask Run(void (*add)(FlagSet*, Flags*), Role role,
                         const InProcessTaskOptions& options, const Start& start) {
    Flags flags;
    COHORT_ASSIGN_OR_RETURN(RoleContext context, ReadTaskFlags(add, &flags, role, options));
    auto self = std::unique_ptr<ServerTask>(new ServerTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(self->server_,
                            start(flags, self->context_,
                                  TaskEnvironment{.data_dir = options.data_dir,
                                                  .runtime_dir = options.runtime_dir,
                                                  .local_servers = options.local_servers,
                                                  .on_done = nullptr}));
    self->attendant_ = std::make_unique<Attendant>(self->end().get(), [raw = self.get()] {
      return TickServer(raw->context_, raw->server_.get());
    });
    return self;
  }
  int port() const override { return server_->port(); }

 private:
  explicit ServerTask(RoleContext context) : context_(std::move(context)) {}

  RoleContext context_;
  std::unique_ptr<ServingTask> server_;
  std::unique_ptr<Attendant> attendant_;
};

}  // namespace

ExitEvent::ExitEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ExitEvent::Set(int exit_code) {
  MutexLock lock(&mu_);
  if (exit_code_.has_value()) return;
  exit_code_ = exit_code;
  eventfd_write(fd_.get(), 1);
}

std::optional<int> ExitEvent::exit_code() {
  MutexLock lock(&mu_);
  return exit_code_;
}

StartedTask StartInProcessServer(Role role, const InProcessTaskOptions& options) {
  const auto start_ps =
      [](const PsFlags& flags, const auto& context,
         const auto& environment) -> absl::StatusOr<std::unique_ptr<ParameterServer>> {
    COHORT_ASSIGN_OR_RETURN(ParameterServer::Options server,
                            MakeServerOptions(flags, context, environment));
    return ParameterServer::Start(std::move(server));
  };
  if (role == Role::kPs) return ServerTask::Run(AddPsFlags, role, options, start_ps);
  const auto start_worker = [](const WorkerFlags& flags, const auto& context,
                               const auto& environment) {
    return WorkerServer::Start(MakeServerOptions(flags, context, environment));
  };
  return ServerTask::Run(AddWorkerFlags, role, options, start_worker);
}

StartedTask StartInProcessReplica(const InProcessTaskOptions& options) {
  return ServerTask::Run(AddReplicaFlags, Role::kWorker, options, Replica::Start);
}

}  // namespace cohort
