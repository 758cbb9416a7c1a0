#ifndef COHORT_DEPLOY_REPLICA_REPLICA_H_
#define COHORT_DEPLOY_REPLICA_REPLICA_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/cluster/task_run.h"
#include "common/exchange/local_server.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {

// The command line of cohort-replica: that of a worker, and --apply_log of a parameter server.
struct ReplicaFlags {
  WorkerFlags worker;
  std::string apply_log;

  PsFlags ps() const;
};

void AddReplicaFlags(FlagSet* flags, ReplicaFlags* out);

// A replica: a worker, and the owner of a part of the variables, at one address. The worker calls its own part directly, and reaches those of other
// replicas over the network.
//
//   chief ──► Worker/Control, ParameterServer/Control ─► this address ◄─ ParameterServer/PushPull
//                                                                       ◄── the other replicas
class Replica : public ServingTask {
 public:
  // It serves when this returns. `on_done` is called on any thread when the chief has ended the
  // job. `data_dir`, `runtime_dir`: $COHORT_DATA_DIR and $XDG_RUNTIME_DIR, or null. The context
  // must outlive the replica. Errors: those of WorkerServer and ParameterServer.
  static absl::StatusOr<std::unique_ptr<Replica>> Start(const ReplicaFlags& flags,
                                                        const RoleContext& context,
                                                        const char* data_dir,
                                                        const char* runtime_dir,
                                                        std::function<void()> on_done);

  int port() const { return worker_->port(); }
  int admin_port() const { return worker_->admin_port(); }

  absl::Status Tick() override;
  std::optional<TaskEnd> end() const override;
  std::optional<uint64_t> steps() const override { return worker_->steps(); }
  std::string StatusLine() const override { return worker_->StatusLine(); }
  std::vector<uint64_t> Turns() override;
  absl::Status Shutdown(const absl::Status& why, std::chrono::milliseconds grace) override;

 private:
  Replica() = default;

  const std::shared_ptr<LocalServers> local_ = std::make_shared<LocalServers>();
  std::unique_ptr<ParameterServer> owner_;
  std::unique_ptr<WorkerServer> worker_;  // has the addresses of both
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_REPLICA_REPLICA_H_
