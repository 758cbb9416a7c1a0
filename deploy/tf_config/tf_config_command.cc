#include "deploy/tf_config/tf_config_command.h"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
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
    return UsageError("--task: \"{}\" is not a task, such as worker:1", text);
  }
  task.role = *role;
  return task;
}

absl::StatusOr<FoundCluster> Find(const TfConfigOptions& o, const Environment& environment) {
  if (o.from_slurm) return ClusterOfSlurm(o.layout, environment);
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
  if (!o.from_slurm && o.first.empty()) {
    return UsageError("give CLUSTER.yaml, or --from_slurm");
  }
  if (o.from_slurm && !o.second.empty()) {
    return UsageError("unexpected argument \"{}\"", o.second);
  }
  return absl::OkStatus();
}

}  // namespace

void AddTfConfigFlags(FlagSet* flags, TfConfigOptions* o) {
  flags->Add("task", &o->task,
             "print the TF_CONFIG of this task, such as worker:1; write no files");
  flags->Add("from_slurm", &o->from_slurm, "the cluster of this Slurm step; print its task's");
  flags->Add("ps", &o->layout.counts.ps, "--from_slurm: parameter servers");
  flags->Add("workers", &o->layout.counts.workers,
             "--from_slurm: workers; -1: the tasks that are left");
  flags->Add("evaluator", &o->layout.counts.evaluator, "--from_slurm: also an evaluator");
  flags->Add("port", &o->layout.port, "--from_slurm: port of the first task on a host");
  flags->Add(
      "distribution", &o->layout.distribution,
      "--from_slurm: which host a task is on: block or cyclic; default: SLURM_DISTRIBUTION, or "
      "block");
  flags->AddPositional("CLUSTER.yaml", &o->first, "name and tasks of the cluster", false);
  flags->AddPositional("DIR", &o->second, "where one file per task is written; default: .", false);
}

absl::StatusOr<std::string> MakeTfConfigs(const TfConfigOptions& options,
                                          const Environment& environment) {
  COHORT_RETURN_IF_ERROR(CheckSource(options));
  COHORT_ASSIGN_OR_RETURN(const FoundCluster found, Find(options, environment));
  const std::string& directory = options.from_slurm ? options.first : options.second;
  if (!options.task.empty()) {
    if (!directory.empty()) {
      return UsageError("--task prints one TF_CONFIG; remove \"{}\"", directory);
    }
    COHORT_ASSIGN_OR_RETURN(const Task task, ParseTask(options.task));
    const bool known = found.cluster.Find(task).has_value();
    if (!known && (task.index != 0 || task.role == Role::kWorker || task.role == Role::kPs)) {
      return UsageError("--task: the cluster has no {}; it has {} of that role", task.ToString(),
                        found.cluster.count(task.role));
    }
    return MakeTfConfig(found.cluster, task) + "\n";
  }
  if (directory.empty() && found.own.has_value()) {
    return MakeTfConfig(found.cluster, *found.own) + "\n";
  }
  return WriteFiles(found.cluster, directory.empty() ? "." : directory);
}

}  // namespace cohort
