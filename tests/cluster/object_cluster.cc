#include "tests/cluster/object_cluster.h"

#include <atomic>
#include <string_view>
#include <thread>
#include <utility>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/status.h"
#include "deploy/in_process/attendant.h"
#include "deploy/in_process/in_process_job.h"

namespace cohort {
namespace {

constexpr int kKilled = 128 + 9;

// A chief with its job runner. Its end has the exit code of the job.
class ChiefTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, const ChiefFlags& flags,
                           const std::string& data_dir) {
    auto self = std::unique_ptr<ChiefTask>(new ChiefTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                            MakeChiefOptions(flags, self->context_, data_dir.c_str()));
    options.progress_output = [](std::string_view) {};
    COHORT_ASSIGN_OR_RETURN(self->chief_, Chief::Start(std::move(options)));
    self->waiter_ = std::thread([raw = self.get()] {
      const absl::Status status = raw->chief_->Wait().status();
      if (!raw->interrupted_) raw->end()->Set(LogEnd(raw->context_, status));
    });
    return self;
  }
  // Interrupts the job: the chief still writes its last settle record.
  ~ChiefTask() override {
    if (!waiter_.joinable()) return;
    interrupted_ = true;
    chief_->Interrupt();
    waiter_.join();
  }

 private:
  explicit ChiefTask(RoleContext context) : context_(std::move(context)) {}

  RoleContext context_;
  std::atomic<bool> interrupted_{false};
  std::unique_ptr<Chief> chief_;
  std::thread waiter_;
};

StartedTask StartChief(const InProcessTaskOptions& options) {
  ChiefFlags flags;
  COHORT_ASSIGN_OR_RETURN(auto context,
                          ReadTaskFlags(AddChiefFlags, &flags, Role::kChief, options));
  return ChiefTask::Start(std::move(context), flags, options.data_dir);
}

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
  return StartChief(options);
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
