#include "chief/api/start_options.h"

#include <vector>

#include "chief/core/joined_tasks.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/graph/pull_ahead.h"
#include "common/plugin/load_plugins.h"

namespace cohort {
namespace {

constexpr size_t kWorkerPlaces = 128;
constexpr size_t kServerPlaces = 16;

// By index.
std::vector<std::string> AddressesOf(const CoordinatorOptions& options, Role role) {
  std::vector<std::string> out;
  for (const auto& [index, address] : options.cluster.tasks(role)) {
    out.push_back(address.ToString());
  }
  return out;
}

}  // namespace

absl::Status CheckOptions(const CoordinatorOptions& options) {
  for (const Role role : {Role::kWorker, Role::kPs}) {
    const auto& tasks = options.cluster.tasks(role);
    if (tasks.empty() && role == Role::kWorker && !options.join_bind.empty()) continue;
    if (tasks.empty()) {
      const char* const join =
          role == Role::kWorker ? "; with --join_bind workers may join while the job runs" : "";
      return WithExitCode(
          InvalidArgument("TF_CONFIG: the cluster has no {}{}", RoleName(role), join),
          ExitCode::kConfig);
    }
    if (tasks.rbegin()->first != static_cast<int>(tasks.size()) - 1) {
      return WithExitCode(
          InvalidArgument("TF_CONFIG: cluster.{} has {} tasks, but its highest index is {}: the "
                          "chief must know them all",
                          RoleName(role), tasks.size(), tasks.rbegin()->first),
          ExitCode::kConfig);
    }
  }
  if (options.pull_ahead > kMaxPullAhead) {
    return WithExitCode(
        InvalidArgument("pull_ahead is at most {}, not {}", kMaxPullAhead, options.pull_ahead),
        ExitCode::kConfig);
  }
  if (options.pull_ahead > 0 && options.mode != ConsistencyMode::kAsync) {
    return WithExitCode(
        InvalidArgument("pull_ahead above 0 applies to asynchronous training; leave "
                        "it out, or choose ConsistencyMode::kAsync"),
        ExitCode::kConfig);
  }
  if (options.checkpoint_dir.empty()) {
    return WithExitCode(
        InvalidArgument("a checkpoint directory is needed: the chief's journal lies "
                        "in it"),
        ExitCode::kConfig);
  }
  return absl::OkStatus();
}

CoreOptions CoreOptionsOf(const CoordinatorOptions& options, const std::string& token,
                          bool continued, const v1::JoinedTasks& joined) {
  CoreOptions core;
  static_cast<JobSettings&>(core) = options;
  core.workers = AddressesOf(options, Role::kWorker);
  core.ps = AddressesOf(options, Role::kPs);
  // A replica has an owner at its own address.
  const bool has_servers = core.ps != core.workers;
  AddPlaces(joined, options.join_bind.empty() ? 0 : kWorkerPlaces, has_servers ? kServerPlaces : 0,
            &core);
  core.continued = continued;
  core.misses_servers = options.copies && options.former_layout != nullptr;
  core.directory_token = token;
  for (const AddedClass& added : AddedDataClasses()) {
    core.needed_classes.push_back({added.name, added.plugin});
  }
  return core;
}

}  // namespace cohort
