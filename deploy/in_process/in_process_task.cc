#include "deploy/in_process/in_process_task.h"

#include <sys/eventfd.h>

#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "deploy/in_process/attendant.h"
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
  static StartedTask Start(RoleContext context, typename Server::Options options, ExitEvent* end) {
    auto self = std::unique_ptr<ServerTask>(new ServerTask(std::move(context)));
    options.log = self->context_.log.get();
    COHORT_ASSIGN_OR_RETURN(self->server_, Server::Start(std::move(options)));
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
    auto server = MakeServerOptions(flags, context, options.runtime_dir.c_str());
    server.local_servers = options.local_servers;
    return ServerTask<ParameterServer>::Start(std::move(context), std::move(server), end);
  }
  WorkerFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context, ReadTaskFlags(AddWorkerFlags, &flags, role, options));
  auto server = MakeServerOptions(flags, context, options.data_dir.c_str());
  server.local_servers = options.local_servers;
  return ServerTask<WorkerServer>::Start(std::move(context), std::move(server), end);
}

}  // namespace cohort
