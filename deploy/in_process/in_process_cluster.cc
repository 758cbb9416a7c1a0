#include "deploy/in_process/in_process_cluster.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "common/base/denormals.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/replica_cluster.h"
#include "common/cluster/tf_config.h"
#include "common/device/devices.h"
#include "common/model/task_plan.h"
#include "common/os/directory.h"
#include "common/os/identity.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/in_process/in_process_task.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTasks = 1000;

TaskPlan PlanOf(const InProcessClusterOptions& options) {
  const bool replicas = options.calls == OwnerCalls::kReplicas;
  return {.workers = options.workers,
          .owners = replicas ? options.workers : options.parameter_servers,
          .calls = options.calls,
          .devices = options.devices};
}

// The cluster that the tasks see. The number of tasks decides the threads of each. The ports are
// placeholders: the system chooses the real ones.
ClusterSpec PlannedSpec(const TaskPlan& plan) {
  std::vector<int> ports(static_cast<size_t>(plan.servers() + plan.workers));
  std::iota(ports.begin(), ports.end(), 1);
  return plan.LocalCluster(ports);
}

// A step thread that calls a server applies its own pushes, with the helpers of the server. So
// workers and servers have the same cores.
int ThreadsOf(const InProcessClusterOptions& options, int tasks_of_role) {
  if (options.threads > 0 || options.calls == OwnerCalls::kSockets) return options.threads;
  return std::max(1, AvailableCores() / tasks_of_role);
}

}  // namespace

InProcessCluster::InProcessCluster(InProcessClusterOptions options)
    : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<InProcessCluster>> InProcessCluster::Start(
    InProcessClusterOptions options) {
  FlushDenormals();
  COHORT_RETURN_IF_ERROR(CheckBetween("workers", options.workers, 1, kMostTasks));
  const TaskPlan plan = PlanOf(options);
  COHORT_RETURN_IF_ERROR(CheckBetween("parameter_servers", plan.owners, 1, kMostTasks));
  if (!options.devices.empty() && options.devices.size() != static_cast<size_t>(options.workers)) {
    return InvalidArgument("devices: {} for {} workers", options.devices.size(), options.workers);
  }
  PrepareTransportProcess();
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster(std::move(options)));
  COHORT_RETURN_IF_ERROR(cluster->MakeDirectory());
  LogOptions log{.role = "chief", .to_stderr = false};
  log.file = cluster->directory() + "/tasks/chief-0.log";
  COHORT_ASSIGN_OR_RETURN(cluster->log_, Logger::Create(log));
  if (plan.calls == OwnerCalls::kDirect) {
    cluster->local_servers_ = std::make_shared<LocalServers>(plan.workers == 1 ? 1 : 0);
  }
  for (int i = 0; i < plan.servers(); ++i) {
    COHORT_RETURN_IF_ERROR(cluster->StartTask({Role::kPs, i}, plan));
  }
  for (int i = 0; i < plan.workers; ++i) {
    COHORT_RETURN_IF_ERROR(cluster->StartTask({Role::kWorker, i}, plan));
  }
  if (plan.are_replicas()) cluster->spec_ = WithOwners(std::move(cluster->spec_));
  return cluster;
}

absl::Status InProcessCluster::MakeDirectory() {
  if (options_.directory.empty()) {
    COHORT_ASSIGN_OR_RETURN(options_.directory, MakeTemporaryDirectory("cohort-in-process"));
    temporary_ = true;
  }
  for (const char* part : {"/tasks", "/checkpoints", "/run"}) {
    COHORT_RETURN_IF_ERROR(MakeDirectories(options_.directory + part));
  }
  // Servers put their sockets only into a directory that belongs to this user alone.
  chmod((options_.directory + "/run").c_str(), S_IRWXU);
  return absl::OkStatus();
}

absl::Status InProcessCluster::StartTask(Task task, const TaskPlan& plan) {
  InProcessTaskOptions options;
  options.arguments = {"--bind=127.0.0.1:0", "--chief_wait_s=0"};
  if (task.role == Role::kWorker && !plan.devices.empty()) {
    const std::string& device = plan.devices[static_cast<size_t>(task.index)];
    for (std::string& flag : DeviceFlags(device, options_.device_options)) {
      options.arguments.push_back(std::move(flag));
    }
  }
  options.tf_config = MakeTfConfig(PlannedSpec(plan), task);
  options.log_file =
      fmt::format("{}/tasks/{}-{}.log", options_.directory, RoleName(task.role), task.index);
  options.log_to_stderr = false;
  options.data_dir = options_.data_dir;
  options.runtime_dir = options_.directory + "/run";
  options.local_servers = local_servers_;
  options.threads = ThreadsOf(options_, task.role == Role::kWorker ? plan.workers : plan.servers());
  auto started = plan.are_replicas() ? StartInProcessReplica(options)
                                     : StartInProcessServer(task.role, options);
  if (!started.ok()) return Annotate(started.status(), task.ToString());
  spec_.Set(task, {"127.0.0.1", (*started)->port()});
  tasks_.push_back(*std::move(started));
  return absl::OkStatus();
}

InProcessCluster::~InProcessCluster() {
  while (!tasks_.empty()) tasks_.pop_back();  // workers first
  log_.reset();
  std::error_code ignored;
  if (temporary_) fs::remove_all(options_.directory, ignored);
}

CoordinatorOptions InProcessCluster::coordinator_options() const {
  CoordinatorOptions options;
  options.cluster = spec_;
  options.job = "in-process";
  options.checkpoint_dir = options_.directory + "/checkpoints";
  options.chief_incarnation = RandomIncarnation();
  options.clock = &clock_;
  options.log = log_.get();
  return options;
}

}  // namespace cohort
