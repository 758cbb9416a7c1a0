#include "deploy/strategy/strategy_tasks.h"

#include <utility>

#include "chief/api/chief_role.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/cluster/replica_cluster.h"
#include "common/cluster/tf_config.h"
#include "common/device/devices.h"
#include "common/model/task_plan.h"
#include "common/os/directory.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/in_process/in_process_cluster.h"
#include "deploy/in_process/in_process_task.h"

namespace cohort {
namespace {

constexpr char kTasks[] = "/tasks";
constexpr char kCheckpoints[] = "/checkpoints";

absl::Status Configuration(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kConfig);
}

// All tasks are objects of this process.
class InProcessTasks : public StrategyTasks {
 public:
  static absl::StatusOr<std::unique_ptr<StrategyTasks>> Start(const StrategyClass& strategy,
                                                              const StrategyOptions& options) {
    COHORT_ASSIGN_OR_RETURN(InProcessClusterOptions cluster, ClusterOf(strategy, options));
    auto tasks = std::make_unique<InProcessTasks>();
    COHORT_ASSIGN_OR_RETURN(tasks->cluster_, InProcessCluster::Start(std::move(cluster)));
    return tasks;
  }
  CoordinatorOptions coordinator_options() const override {
    return cluster_->coordinator_options();
  }

 private:
  static absl::StatusOr<InProcessClusterOptions> ClusterOf(const StrategyClass& strategy,
                                                           const StrategyOptions& options) {
    COHORT_ASSIGN_OR_RETURN(TaskPlan plan, PlanTasks(strategy, options.devices,
                                                     {.workers = options.workers,
                                                      .servers = options.parameter_servers}));
    InProcessClusterOptions cluster;
    cluster.workers = plan.workers;
    cluster.parameter_servers = plan.owners;
    cluster.calls = plan.calls;
    cluster.devices = std::move(plan.devices);
    cluster.device_options = options.devices;
    cluster.threads = options.role.threads;
    cluster.directory = options.directory;
    cluster.data_dir = options.data_dir;
    return cluster;
  }

  std::unique_ptr<InProcessCluster> cluster_;
};

// The flags of this process that its replica gets. Its log has a file of its own.
std::vector<std::string> ReplicaArguments(const StrategyOptions& options) {
  const RoleFlags& role = options.role;
  std::vector<std::string> out = {
      "--chief_wait_s=0", fmt::format("--admin_port={}", role.admin_port),
      "--admin_bind=" + role.admin_bind, fmt::format("--allow_insecure={}", role.allow_insecure),
      "--log_level=" + role.log_level};
  if (!role.bind.empty()) out.push_back("--bind=" + role.bind);
  if (!role.tls_dir.empty()) out.push_back("--tls_dir=" + role.tls_dir);
  if (!role.secret_file.empty()) out.push_back("--secret_file=" + role.secret_file);
  if (!role.unix_socket_dir.empty()) out.push_back("--unix_socket_dir=" + role.unix_socket_dir);
  for (const std::string& plugin : role.plugins) out.push_back("--plugin=" + plugin);
  const std::string& devices = options.devices.devices;
  for (std::string& flag : DeviceFlags(devices.empty() ? "cpu" : devices, options.devices)) {
    if (!devices.empty()) out.push_back(std::move(flag));
  }
  return out;
}

// TF_CONFIG names the tasks. This process runs the loop, and perhaps the first replica.
class ClusterTasks : public StrategyTasks {
 public:
  static absl::StatusOr<std::unique_ptr<StrategyTasks>> Start(const StrategyClass& strategy,
                                                              const StrategyOptions& options) {
    if (options.directory.empty()) {
      return Configuration(InvalidArgument(
          "strategy {} with TF_CONFIG needs a directory that every task sees", strategy.name));
    }
    COHORT_RETURN_IF_ERROR(MakeDirectories(options.directory + kCheckpoints));
    auto tasks = std::make_unique<ClusterTasks>();
    tasks->checkpoint_dir_ = options.directory + kCheckpoints;
    COHORT_RETURN_IF_ERROR(strategy.calls == OwnerCalls::kReplicas
                               ? tasks->StartReplica(strategy, options)
                               : tasks->MakeContext(options.role, options.tf_config));
    return tasks;
  }
  CoordinatorOptions coordinator_options() const override {
    CoordinatorOptions options = CoordinatorOptionsOf(*context_);
    options.checkpoint_dir = checkpoint_dir_;
    if (replica_ != nullptr) options.cluster = WithOwners(ReplicasOf(context_->cluster));
    return options;
  }

 private:
  absl::Status MakeContext(const RoleFlags& role, const std::string& tf_config) {
    COHORT_ASSIGN_OR_RETURN(RoleContext context,
                            MakeRoleContext(role, Role::kChief, tf_config.c_str()));
    context_ = std::make_unique<RoleContext>(std::move(context));
    return absl::OkStatus();
  }

  absl::Status StartReplica(const StrategyClass& strategy, const StrategyOptions& options) {
    COHORT_ASSIGN_OR_RETURN(const TfConfig config, ParseTfConfig(options.tf_config));
    const ClusterSpec replicas = ReplicasOf(config.cluster);
    if (!config.task.has_value() || ReplicaOf(config.cluster, *config.task) != 0) {
      return Configuration(InvalidArgument(
          "TF_CONFIG: task: {}: the loop of strategy {} runs in the first replica (the chief with "
          "an "
          "address, else worker:0); start `cohort run` in the others",
          config.task.has_value() ? config.task->ToString() : "missing", strategy.name));
    }
    RoleFlags chief = options.role;
    chief.bind.clear();  // that of the replica
    chief.admin_port = -1;
    COHORT_RETURN_IF_ERROR(MakeContext(chief, MakeTfConfig(replicas, {Role::kChief, 0})));
    PrepareTransportProcess();
    COHORT_RETURN_IF_ERROR(MakeDirectories(options.directory + kTasks));
    InProcessTaskOptions task;
    task.arguments = ReplicaArguments(options);
    task.tf_config = MakeTfConfig(replicas, {Role::kWorker, 0});
    task.log_file = options.directory + kTasks + "/worker-0.log";
    task.log_to_stderr = false;
    task.data_dir = options.data_dir;
    task.threads = options.role.threads;
    COHORT_ASSIGN_OR_RETURN(replica_, StartInProcessReplica(task));
    return absl::OkStatus();
  }

  std::string checkpoint_dir_;
  std::unique_ptr<RoleContext> context_;
  std::unique_ptr<InProcessTask> replica_;  // null: this process has no task
};

}  // namespace

absl::StatusOr<std::unique_ptr<StrategyTasks>> StrategyTasks::Start(
    const StrategyClass& strategy, const StrategyOptions& options) {
  const bool cluster = !strategy.local() && !options.tf_config.empty();
  return cluster ? ClusterTasks::Start(strategy, options)
                 : InProcessTasks::Start(strategy, options);
}

}  // namespace cohort
