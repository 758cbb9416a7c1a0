#include "tests/cluster/object_cluster.h"

#include <utility>

#include "common/base/status.h"
#include "deploy/in_process/in_process_job.h"

namespace cohort {
namespace {

constexpr int kKilled = 128 + 9;

StartedTask StartTask(TaskRole role, const InProcessTaskOptions& options) {
  switch (role) {
    case TaskRole::kPs:
      return StartInProcessServer(Role::kPs, options);
    case TaskRole::kWorker:
      return StartInProcessServer(Role::kWorker, options);
    case TaskRole::kEvaluator:
      return StartInProcessEvaluator(options);
    case TaskRole::kChief:
      break;
  }
  return StartInProcessChief(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MiniCluster>> ObjectCluster::Create(MiniClusterOptions options) {
  return std::unique_ptr<MiniCluster>(new ObjectCluster(std::move(options)));
}

ObjectCluster::ObjectCluster(MiniClusterOptions options) : MiniCluster(std::move(options)) {}
ObjectCluster::~ObjectCluster() = default;

absl::Status ObjectCluster::Start(TaskRole role, int index, const TaskFlags& flags) {
  if (Running(role, index)) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  const Key key{role, index};
  tasks_.erase(key);
  BeginLife(role, index);
  InProcessTaskOptions options;
  options.arguments = Arguments(role, index, flags);
  options.tf_config = TfConfig(role, index);
  options.log_file = LogFile(role, index);
  options.data_dir = options_.data_dir;
  options.runtime_dir = runtime_dir();
  options.threads = 1;
  COHORT_ASSIGN_OR_RETURN(auto task, StartTask(role, options));
  ends_[key] = task->end();
  tasks_[key] = std::move(task);
  return absl::OkStatus();
}

absl::Status ObjectCluster::Kill(TaskRole role, int index) {
  if (!Running(role, index)) {
    return FailedPrecondition("{}:{} does not run", TaskRoleName(role), index);
  }
  tasks_.erase({role, index});
  ends_.at({role, index})->Set(kKilled);
  return absl::OkStatus();
}

bool ObjectCluster::Running(TaskRole role, int index) {
  const auto it = ends_.find({role, index});
  return it != ends_.end() && !it->second->exit_code().has_value();
}

int ObjectCluster::EndFd(TaskRole role, int index) {
  const auto it = ends_.find({role, index});
  return it == ends_.end() ? -1 : it->second->fd();
}

int ObjectCluster::ExitCode(TaskRole role, int index) {
  tasks_.erase({role, index});
  return ends_.at({role, index})->exit_code().value_or(kKilled);
}

}  // namespace cohort
