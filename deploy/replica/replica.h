#ifndef COHORT_DEPLOY_REPLICA_REPLICA_H_
#define COHORT_DEPLOY_REPLICA_REPLICA_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>

#include "common/cluster/task_run.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {

// The command line of cohort-replica: that of a worker, and --apply_log of a parameter server.
struct ReplicaFlags : WorkerFlags {
  std::string apply_log;
};

void AddReplicaFlags(FlagSet* flags, ReplicaFlags* out);

// A replica: a worker, and the owner of a part of the variables, at one address. The worker calls
// its own part directly, and reaches those of other replicas over the network.
//
//   chief ──► Worker/Control, ParameterServer/Control ─► this address ◄─ ParameterServer/PushPull
//                                                                       ◄── the other replicas
class Replica : public ServingTask {
 public:
  // It serves when this returns, and calls its own part directly (`environment.local_servers` is
  // ignored). The context must outlive it. Errors: those of WorkerServer and ParameterServer.
  static absl::StatusOr<std::unique_ptr<Replica>> Start(const ReplicaFlags& flags,
                                                        const RoleContext& context,
                                                        TaskEnvironment environment);

  int port() const override { return worker_->port(); }

  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  std::optional<uint64_t> steps() const override { return worker_->steps(); }
  std::string StatusLine() const override { return worker_->StatusLine(); }
  std::vector<uint64_t> Turns() override;
  void SetHang(const std::string& why) override { worker_->SetHang(why); }
  // Before a job has ended, an elastic one gets a part of `grace` to take a checkpoint and to
  // continue without this replica.
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

 private:
  Replica() = default;
  // Works on until the chief of an elastic job uses this replica no more, or until `deadline`.
  void Leave(TimePoint deadline);

  std::unique_ptr<ParameterServer> owner_;
  std::unique_ptr<WorkerServer> worker_;  // has the addresses of both
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_REPLICA_REPLICA_H_
