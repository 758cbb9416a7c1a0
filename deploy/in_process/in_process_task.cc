#include "deploy/in_process/in_process_task.h"

#include <absl/functional/function_ref.h>
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

// A worker or a parameter server.
template <typename Server>
class ServerTask : public InProcessTask {
 public:
  // `start` gets the context, which outlives the server.
  static StartedTask Start(
      RoleContext context,
      absl::FunctionRef<absl::StatusOr<std::unique_ptr<Server>>(const RoleContext&)> start,
      ExitEvent* end) {
    auto self = std::unique_ptr<ServerTask>(new ServerTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(self->server_, start(self->context_));
    self->attendant_ = std::make_unique<Attendant>(
        end, [raw = self.get()] { return TickServer(raw->context_, raw->server_.get()); });
    return self;
  }
  int port() const override { return server_->port(); }

 private:
  explicit ServerTask(RoleContext context) : context_(std::move(context)) {}

  RoleContext context_;
  std::unique_ptr<Server> server_;
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

StartedTask StartInProcessServer(Role role, InProcessTaskOptions options, ExitEvent* end) {
  if (role == Role::kPs) {
    PsFlags flags;
    COHORT_ASSIGN_OR_RETURN(auto context, ReadTaskFlags(AddPsFlags, &flags, role, options));
    const auto start = [&](const RoleContext& own) {
      auto server = MakeServerOptions(flags, own, options.runtime_dir.c_str());
      server.local_servers = options.local_servers;
      return ParameterServer::Start(std::move(server));
    };
    return ServerTask<ParameterServer>::Start(std::move(context), start, end);
  }
  WorkerFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context, ReadTaskFlags(AddWorkerFlags, &flags, role, options));
  const auto start = [&](const RoleContext& own) {
    auto server = MakeServerOptions(flags, own, options.data_dir.c_str());
    server.local_servers = options.local_servers;
    return WorkerServer::Start(std::move(server));
  };
  return ServerTask<WorkerServer>::Start(std::move(context), start, end);
}

StartedTask StartInProcessReplica(InProcessTaskOptions options, ExitEvent* end) {
  ReplicaFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context, ReadTaskFlags(AddReplicaFlags, &flags, &flags.worker.role,
                                                      Role::kWorker, options));
  const auto start = [&](const RoleContext& own) {
    return Replica::Start(flags, own, options.data_dir.c_str(), options.runtime_dir.c_str(), [] {});
  };
  return ServerTask<Replica>::Start(std::move(context), start, end);
}

}  // namespace cohort
