#include "deploy/in_process/in_process_cluster.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/replica_cluster.h"
#include "common/cluster/tf_config.h"
#include "common/device/devices.h"
#include "common/os/directory.h"
#include "common/os/identity.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/in_process/in_process_task.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr int kMostTasks = 1000;
constexpr char kHost[] = "127.0.0.1";

// The cluster that the tasks see. The number of tasks decides the threads of each. The ports are
// placeholders: the system chooses the real ones.
ClusterSpec PlannedSpec(const InProcessClusterOptions& options) {
  ClusterSpec spec;
  int port = 1;
  for (int i = 0; i < options.workers; ++i) spec.Set({Role::kWorker, i}, {kHost, port++});
  if (options.calls == InProcessCalls::kReplicas) return spec;
  for (int i = 0; i < options.parameter_servers; ++i) spec.Set({Role::kPs, i}, {kHost, port++});
  return spec;
}

// A step thread that calls a server applies its own pushes, with the helpers of the server. So workers
// and servers have the same cores.
int ThreadsOf(const InProcessClusterOptions& options, int tasks_of_role) {
  if (options.threads > 0 || options.calls == InProcessCalls::kSockets) return options.threads;
  return std::max(1, AvailableCores() / tasks_of_role);
}

absl::StatusOr<std::string> MakeTemporaryDirectory() {
  std::error_code error;
  std::string path = (fs::temp_directory_path(error) / "cohort-in-process.XXXXXX").string();
  if (!error && mkdtemp(path.data()) != nullptr) return path;
  return WithExitCode(FailedPrecondition("no temporary directory can be created in $TMPDIR: {}",
                                         error ? error.message() : std::strerror(errno)),
                      ExitCode::kCantCreate);
}

}  // namespace

InProcessCluster::InProcessCluster(InProcessClusterOptions options)
    : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<InProcessCluster>> InProcessCluster::Start(
    InProcessClusterOptions options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("workers", options.workers, 1, kMostTasks));
  const bool replicas = options.calls == InProcessCalls::kReplicas;
  if (!replicas) {
    COHORT_RETURN_IF_ERROR(
        CheckBetween("parameter_servers", options.parameter_servers, 1, kMostTasks));
  }
  if (!options.devices.empty() && options.devices.size() != static_cast<size_t>(options.workers)) {
    return InvalidArgument("devices: {} for {} workers", options.devices.size(), options.workers);
  }
  PrepareTransportProcess();
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster(std::move(options)));
  COHORT_RETURN_IF_ERROR(cluster->MakeDirectory());
  LogOptions log{.role = "chief", .to_stderr = false};
  log.file = cluster->directory() + "/tasks/chief-0.log";
  COHORT_ASSIGN_OR_RETURN(cluster->log_, Logger::Create(log));
  const ClusterSpec planned = PlannedSpec(cluster->options_);
  if (cluster->options_.calls == InProcessCalls::kDirect) {
    cluster->local_servers_ =
        std::make_shared<LocalServers>(cluster->options_.workers == 1 ? 1 : 0);
  }
  if (!replicas) {
    COHORT_RETURN_IF_ERROR(
        cluster->StartTasks(Role::kPs, cluster->options_.parameter_servers, planned));
  }
  COHORT_RETURN_IF_ERROR(cluster->StartTasks(Role::kWorker, cluster->options_.workers, planned));
  if (replicas) cluster->spec_ = WithOwners(std::move(cluster->spec_));
  return cluster;
}

absl::Status InProcessCluster::MakeDirectory() {
  if (options_.directory.empty()) {
    COHORT_ASSIGN_OR_RETURN(options_.directory, MakeTemporaryDirectory());
    temporary_ = true;
  }
  for (const char* part : {"/tasks", "/checkpoints", "/run"}) {
    COHORT_RETURN_IF_ERROR(MakeDirectories(options_.directory + part));
  }
  // Servers put their sockets only into a directory that belongs to this user alone.
  chmod((options_.directory + "/run").c_str(), S_IRWXU);
  return absl::OkStatus();
}

absl::Status InProcessCluster::StartTasks(Role role, int count, const ClusterSpec& planned) {
  for (int i = 0; i < count; ++i) {
    const Task task{role, i};
    InProcessTaskOptions options;
    options.arguments = {fmt::format("--bind={}:0", kHost), "--chief_wait_s=0"};
    if (role == Role::kWorker && !options_.devices.empty()) {
      const std::string& device = options_.devices[static_cast<size_t>(i)];
      for (std::string& flag : DeviceFlags(device, options_.device_options)) {
        options.arguments.push_back(std::move(flag));
      }
    }
    options.tf_config = MakeTfConfig(planned, task);
    options.log_file = fmt::format("{}/tasks/{}-{}.log", options_.directory, RoleName(role), i);
    options.log_to_stderr = false;
    options.data_dir = options_.data_dir;
    options.runtime_dir = options_.directory + "/run";
    options.local_servers = local_servers_;
    options.threads = ThreadsOf(options_, count);
    auto end = std::make_unique<ExitEvent>();
    auto started = StartTask(task, std::move(options), end.get());
    if (!started.ok()) return Annotate(started.status(), task.ToString());
    spec_.Set(task, {kHost, (*started)->port()});
    ends_.push_back(std::move(end));
    tasks_.push_back(*std::move(started));
  }
  return absl::OkStatus();
}

StartedTask InProcessCluster::StartTask(Task task, InProcessTaskOptions options, ExitEvent* end) {
  if (options_.calls != InProcessCalls::kReplicas) {
    return StartInProcessServer(task.role, std::move(options), end);
  }
  return StartInProcessReplica(std::move(options), end);
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
