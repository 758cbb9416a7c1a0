#include "deploy/tf_config/tf_config_command.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/cluster/cluster_file.h"
#include "common/cluster/tf_config.h"
#include "common/os/directory.h"

namespace cohort {
namespace {

// "worker:1".
absl::StatusOr<Task> ParseTask(const std::string& text) {
  const size_t colon = text.find(':');
  const auto role = RoleFromName(text.substr(0, colon));
  const std::string index = colon == text.npos ? "0" : text.substr(colon + 1);
  Task task;
  const auto result = std::from_chars(index.data(), index.data() + index.size(), task.index);
  if (!role.has_value() || result.ec != std::errc() || result.ptr != index.data() + index.size() ||
      task.index < 0) {
    return WrongUsage(InvalidArgument("--task: \"{}\" is not a task, such as worker:1", text));
  }
  task.role = *role;
  return task;
}

absl::StatusOr<std::string> HostName() {
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return WithExitCode(Unavailable("no host name: {}", std::generic_category().message(errno)),
                        ExitCode::kOs);
  }
  return std::string(name.data());
}

absl::StatusOr<std::vector<HostSlots>> ReadHostFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return NotFound("--from_hostfile: {} cannot be read", path);
  return ParseHostFile(text.str(), path);
}

absl::StatusOr<FoundCluster> Find(const TfConfigOptions& o, const Environment& environment) {
  if (o.from_slurm) return ClusterOfSlurm(o.layout, environment);
  if (!o.from_hostfile.empty()) {
    COHORT_ASSIGN_OR_RETURN(const auto hosts, ReadHostFile(o.from_hostfile));
    return ClusterOfHosts(o.layout, hosts);
  }
  if (o.from_statefulset) {
    std::string hostname = o.hostname;
    if (hostname.empty()) {
      COHORT_ASSIGN_OR_RETURN(hostname, HostName());
    }
    return ClusterOfStatefulSet(o.layout, hostname, o.service);
  }
  COHORT_ASSIGN_OR_RETURN(ClusterFile file, ReadClusterFile(o.first));
  return FoundCluster{std::move(file.cluster), std::nullopt};
}

// The tasks that are started: a job has a chief even if the cluster gives it no address.
std::vector<Task> TasksToStart(const ClusterSpec& cluster) {
  std::vector<Task> tasks = cluster.AllTasks();
  if (cluster.count(Role::kChief) == 0 && cluster.count(Role::kPs) > 0) {
    tasks.insert(tasks.begin(), Task{Role::kChief, 0});
  }
  return tasks;
}

// Replaces the file at once, because a service may start while it is written.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  std::error_code error;
  if (out << text; !out.flush()) {
    error = std::error_code(errno, std::generic_category());
  } else {
    std::filesystem::rename(temporary, path, error);
  }
  if (!error) return absl::OkStatus();
  return WithExitCode(FailedPrecondition("{} cannot be written: {}", path, error.message()),
                      ExitCode::kCantCreate);
}

absl::StatusOr<std::string> WriteFiles(const ClusterSpec& cluster, const std::string& directory) {
  COHORT_RETURN_IF_ERROR(MakeDirectories(directory));
  std::string written;
  for (const Task task : TasksToStart(cluster)) {
    const std::string path =
        fmt::format("{}/{}-{}.env", directory, RoleName(task.role), task.index);
    COHORT_RETURN_IF_ERROR(
        WriteFile(path, fmt::format("TF_CONFIG={}\n", MakeTfConfig(cluster, task))));
    written += path + "\n";
  }
  return written;
}

absl::Status CheckSource(const TfConfigOptions& o) {
  const int flags =
      (o.from_slurm ? 1 : 0) + (o.from_hostfile.empty() ? 0 : 1) + (o.from_statefulset ? 1 : 0);
  if (flags > 1) return WrongUsage(InvalidArgument("give one of the --from_... flags"));
  if (flags == 0 && o.first.empty()) {
    return WrongUsage(InvalidArgument("give CLUSTER.yaml, or one of the --from_... flags"));
  }
  if (flags == 1 && !o.second.empty()) {
    return WrongUsage(InvalidArgument("unexpected argument \"{}\"", o.second));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTfConfigFlags(FlagSet* flags, TfConfigOptions* o) {
  flags->Add("task", &o->task,
             "print the TF_CONFIG of this task, such as worker:1; write no files");
  flags->Add("from_slurm", &o->from_slurm, "the cluster of this Slurm step; print its task's");
  flags->Add("from_hostfile", &o->from_hostfile, "MPI host file with the hosts of the cluster");
  flags->Add("from_statefulset", &o->from_statefulset,
             "the cluster of this pod's StatefulSets; print its task's");
  flags->Add("ps", &o->layout.counts.ps, "--from_...: parameter servers");
  flags->Add("workers", &o->layout.counts.workers,
             "--from_...: workers; -1: the tasks that are left");
  flags->Add("evaluator", &o->layout.counts.evaluator, "--from_...: also an evaluator");
  flags->Add("port", &o->layout.port, "--from_...: port of the first task on a host");
  flags->Add("distribution", &o->layout.distribution,
             "which host a task is on: block or cyclic; default: SLURM_DISTRIBUTION, or cyclic");
  flags->Add("hostname", &o->hostname, "--from_statefulset: name of the pod; default: this host's");
  flags->Add("service", &o->service,
             "--from_statefulset: domain of the headless service; default: the StatefulSet's name");
  flags->AddPositional("CLUSTER.yaml", &o->first, "name and tasks of the cluster", false);
  flags->AddPositional("DIR", &o->second, "where one file per task is written; default: .", false);
}

absl::StatusOr<std::string> MakeTfConfigs(const TfConfigOptions& options,
                                          const Environment& environment) {
  COHORT_RETURN_IF_ERROR(CheckSource(options));
  COHORT_ASSIGN_OR_RETURN(const FoundCluster found, Find(options, environment));
  const bool from_flag =
      options.from_slurm || options.from_statefulset || !options.from_hostfile.empty();
  const std::string& directory = from_flag ? options.first : options.second;
  if (!options.task.empty()) {
    if (!directory.empty()) {
      return WrongUsage(InvalidArgument("--task prints one TF_CONFIG; remove \"{}\"", directory));
    }
    COHORT_ASSIGN_OR_RETURN(const Task task, ParseTask(options.task));
    const bool known = found.cluster.Find(task).has_value();
    if (!known && (task.index != 0 || task.role == Role::kWorker || task.role == Role::kPs)) {
      return WrongUsage(InvalidArgument("--task: the cluster has no {}; it has {} of that role",
                                        task.ToString(), found.cluster.count(task.role)));
    }
    return MakeTfConfig(found.cluster, task) + "\n";
  }
  if (directory.empty() && found.own.has_value()) {
    return MakeTfConfig(found.cluster, *found.own) + "\n";
  }
  return WriteFiles(found.cluster, directory.empty() ? "." : directory);
}

}  // namespace cohort
