#include "deploy/replica/replica.h"

#include <algorithm>
#include <utility>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/exchange/local_server.h"

namespace cohort {

namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);

PsFlags FlagsOfOwner(const ReplicaFlags& flags) {
  PsFlags owner;
  static_cast<ServedFlags&>(owner) = flags;
  owner.apply_log = flags.apply_log;
  return owner;
}

}  // namespace

void AddReplicaFlags(FlagSet* flags, ReplicaFlags* out) {
  AddWorkerFlags(flags, out);
  flags->Add("apply_log", &out->apply_log, "file that gets one line per push section");
}

absl::StatusOr<std::unique_ptr<Replica>> Replica::Start(const ReplicaFlags& flags,
                                                        const RoleContext& context,
                                                        TaskEnvironment environment) {
  environment.local_servers = std::make_shared<LocalServers>();
  std::unique_ptr<Replica> replica(new Replica);
  COHORT_ASSIGN_OR_RETURN(ParameterServer::Options owner,
                          MakeServerOptions(FlagsOfOwner(flags), context, environment));
  WorkerServer::Options worker = MakeServerOptions(flags, context, environment);
  worker.listen = std::exchange(owner.listen, {});
  worker.unix_socket = owner.unix_socket;
  COHORT_ASSIGN_OR_RETURN(replica->owner_, ParameterServer::Start(std::move(owner)));
  // The task of the first replica runs the chief.
  if (const auto first = context.cluster.Find({Role::kWorker, 0}); first.has_value()) {
    worker.chief_address = first->ToString();
  }
  worker.owner = replica->owner_->Part();
  COHORT_ASSIGN_OR_RETURN(replica->worker_, WorkerServer::Start(std::move(worker)));
  return replica;
}

// The chief dials both parts, so one wait for it is enough.
absl::Status Replica::Tick() {
  owner_->KeepLedger();
  return worker_->Tick();
}

// The chief ends the job for both parts. It does not reach a part that it has not dialed yet, after
// a restart of this task.
std::optional<TaskEnd> Replica::end() const {
  const std::optional<TaskEnd> owner = owner_->end();
  return owner.has_value() ? owner : worker_->end();
}

std::vector<uint64_t> Replica::Turns() {
  std::vector<uint64_t> turns = worker_->Turns();
  for (const uint64_t of_owner : owner_->Turns()) turns.push_back(of_owner);
  return turns;
}

void Replica::Leave(TimePoint deadline) {
  const RealClock clock;
  if (!worker_->core()->Leave()) return;
  while (clock.Now() < deadline) {
    if (worker_->core()->AwaitRelease(std::min(deadline, clock.Now() + kTick))) return;
    if (!Tick().ok()) return;
  }
}

// The streams of both parts are the worker's. So the owner first finishes its snapshots, and can
// still report them.
absl::Status Replica::Shutdown(const absl::Status& why, std::chrono::milliseconds grace) {
  const RealClock clock;
  const TimePoint deadline = clock.Now() + grace;
  if (!why.ok()) Leave(deadline);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock.Now());
  grace = std::max(left, std::chrono::milliseconds(0));
  const absl::Status owner = owner_->Shutdown(why, grace);
  const absl::Status worker = worker_->Shutdown(why, grace);
  return owner.ok() ? worker : owner;
}

}  // namespace cohort
