#include "deploy/replica/replica.h"

#include <utility>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "ps_server/ps_service.h"

namespace cohort {

PsFlags ReplicaFlags::ps() const {
  PsFlags flags;
  flags.role = worker.role;
  flags.role.admin_port = -1;  // the worker serves both
  flags.apply_log = apply_log;
  flags.chief_timeout_s = worker.chief_timeout_s;
  flags.chief_wait_s = worker.chief_wait_s;
  flags.drain_timeout_s = worker.drain_timeout_s;
  return flags;
}

void AddReplicaFlags(FlagSet* flags, ReplicaFlags* out) {
  AddWorkerFlags(flags, &out->worker);
  flags->Add("apply_log", &out->apply_log, "file that gets one line per push section");
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Start(const ReplicaFlags& flags,
                                                        const RoleContext& context,
                                                        const char* data_dir,
                                                        const char* runtime_dir,
                                                        std::function<void()> on_done) {
  std::unique_ptr<Replica> replica(new Replica);
  ParameterServer::Options owner = MakeServerOptions(flags.ps(), context, runtime_dir);
  const std::vector<std::string> listen = std::exchange(owner.listen, {});
  owner.local_servers = replica->local_;
  owner.on_done = on_done;
  COHORT_ASSIGN_OR_RETURN(replica->owner_, ParameterServer::Start(std::move(owner)));

  WorkerServer::Options worker = MakeServerOptions(flags.worker, context, data_dir);
  worker.listen = listen;
  worker.local_servers = replica->local_;
  // The task of the first replica runs the chief.
  if (const auto first = context.cluster.Find({Role::kWorker, 0}); first.has_value()) {
    worker.chief_address = first->ToString();
  }
  worker.on_done = std::move(on_done);
  worker.shared =
      SharedService{.methods = replica->owner_->Methods(),
                    .control_methods = {kControlMethod},
                    .health_service = "cohort.v1.ParameterServer",
                    .threads = context.threads,
                    .metrics = [owner = replica->owner_.get()] { return owner->metrics().Text(); },
                    .readiness = [owner = replica->owner_.get()] { return owner->Readiness(); }};
  COHORT_ASSIGN_OR_RETURN(replica->worker_, WorkerServer::Start(std::move(worker)));
  return replica;
}

// The chief dials both parts, so one wait for it is enough.
absl::Status Replica::Tick() { return worker_->Tick(); }

// The chief ends the job for both parts. It does not reach a part that it has not dialed yet, after a
// restart of this task.
std::optional<TaskEnd> Replica::end() const {
  const std::optional<TaskEnd> owner = owner_->end();
  return owner.has_value() ? owner : worker_->end();
}

std::vector<uint64_t> Replica::Turns() {
  std::vector<uint64_t> turns = worker_->Turns();
  for (const uint64_t of_owner : owner_->Turns()) turns.push_back(of_owner);
  return turns;
}

// The streams of both parts are the worker's. So the owner first finishes its snapshots, and can
// still report them.
absl::Status Replica::Shutdown(const absl::Status& why, std::chrono::milliseconds grace) {
  const absl::Status owner = owner_->Shutdown(why, grace);
  const absl::Status worker = worker_->Shutdown(why, grace);
  return owner.ok() ? worker : owner;
}

}  // namespace cohort
