#include "tests/cluster/in_process_cluster.h"

#include <sys/eventfd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "evaluator/evaluator.h"
#include "evaluator/evaluator_options.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);
constexpr int kKilled = 128 + 9;

// Does on a thread what a main() does with its owner object: ticks it until it is done or stopped.
class Attendant {
 public:
  // `tick` returns the exit code once the task has ended.
  Attendant(ExitEvent* end, std::function<std::optional<int>()> tick)
      : thread_([this, end, tick = std::move(tick)] { Run(end, tick); }) {}
  // Ends the thread without an exit code.
  ~Attendant() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      wake_.SignalAll();
    }
    thread_.join();
  }

 private:
  void Run(ExitEvent* end, const std::function<std::optional<int>()>& tick) {
    while (true) {
      const std::optional<int> code = tick();
      if (code.has_value()) return end->Set(*code);
      MutexLock lock(&mu_);
      if (stopping_) return;
      wake_.WaitUntil(&mu_, std::chrono::steady_clock::now() + kTick);
    }
  }

  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Logs the error, as ExitWith would.
int Ends(const RoleContext& context, const absl::Status& status) {
  if (!status.ok()) context.log->Failure(LogLevel::kError, "ends", status);
  return static_cast<int>(ExitCodeOf(status));
}

template <typename Server>
std::optional<int> TickServer(const RoleContext& context, Server* server) {
  const absl::Status status = server->Tick();
  if (!status.ok()) return Ends(context, status);
  const auto end = server->end();
  if (!end.has_value()) return std::nullopt;
  const absl::Status stopped = server->Shutdown(absl::OkStatus(), std::chrono::milliseconds(0));
  if (!stopped.ok()) return Ends(context, stopped);
  if (end->job_finished) return 0;
  return Ends(context, Unavailable("the chief ended the job: {}", end->reason));
}

using StartedTask = absl::StatusOr<std::unique_ptr<InProcessTask>>;

// A worker or a parameter server.
template <typename Server>
class ServerTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, typename Server::Options options, ExitEvent* end) {
    auto self = std::unique_ptr<ServerTask>(new ServerTask(std::move(context)));
    options.log = self->context_.log.get();
    COHORT_ASSIGN_OR_RETURN(self->server_, Server::Start(std::move(options)));
    self->attendant_ = std::make_unique<Attendant>(
        end, [raw = self.get()] { return TickServer(raw->context_, raw->server_.get()); });
    return self;
  }

 private:
  explicit ServerTask(RoleContext context) : context_(std::move(context)) {}
  RoleContext context_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Attendant> attendant_;
};

class ChiefTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, const ChiefFlags& flags,
                           const std::string& data_dir, ExitEvent* end) {
    auto self = std::unique_ptr<ChiefTask>(new ChiefTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                            MakeChiefOptions(flags, self->context_, data_dir.c_str()));
    options.progress_output = [](std::string_view) {};
    COHORT_ASSIGN_OR_RETURN(self->chief_, Chief::Start(std::move(options)));
    self->waiter_ = std::thread([raw = self.get(), end] {
      const absl::Status status = raw->chief_->Wait().status();
      if (!raw->interrupted_) end->Set(Ends(raw->context_, status));
    });
    return self;
  }
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

class EvaluatorTask : public InProcessTask {
 public:
  static StartedTask Start(RoleContext context, const EvaluatorFlags& flags,
                           const std::string& data_dir, ExitEvent* end) {
    auto self = std::unique_ptr<EvaluatorTask>(new EvaluatorTask(std::move(context)));
    Evaluator::Options options = MakeEvaluatorOptions(flags, self->context_, data_dir.c_str());
    COHORT_ASSIGN_OR_RETURN(self->evaluator_, Evaluator::Create(std::move(options)));
    self->attendant_ = std::make_unique<Attendant>(end, [raw = self.get()]() -> std::optional<int> {
      const absl::StatusOr<bool> more = raw->evaluator_->Poll();
      if (!more.ok()) return Ends(raw->context_, more.status());
      return raw->evaluator_->done() ? std::optional<int>(0) : std::nullopt;
    });
    return self;
  }

 private:
  explicit EvaluatorTask(RoleContext context) : context_(std::move(context)) {}
  RoleContext context_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Attendant> attendant_;
};

// Reads the command line and TF_CONFIG of a role.
template <typename Flags>
absl::StatusOr<RoleContext> Read(void (*add)(FlagSet*, Flags*), Flags* flags,
                                 const std::vector<std::string>& arguments, Role role,
                                 const std::string& tf_config, const std::string& log_file) {
  flags->role.threads = 1;
  FlagSet set("in-process", "A task within a test.");
  add(&set, flags);
  const ParsedFlags parsed = set.Parse(arguments);
  if (!parsed.run) return InvalidArgument("{}", parsed.err);
  if (!flags->role.crash_point.empty()) {
    return Unimplemented("crash points end a process: use real ones");
  }
  flags->role.log_file = log_file;
  return MakeRoleContext(flags->role, role, tf_config.c_str());
}

StartedTask StartTask(TaskRole role, const std::vector<std::string>& arguments,
                      const std::string& tf_config, const std::string& log_file,
                      const std::string& data_dir, const std::string& runtime_dir, ExitEvent* end) {
  if (role == TaskRole::kPs) {
    PsFlags flags;
    COHORT_ASSIGN_OR_RETURN(auto context,
                            Read(AddPsFlags, &flags, arguments, Role::kPs, tf_config, log_file));
    auto options = MakeServerOptions(flags, context, runtime_dir.c_str());
    return ServerTask<ParameterServer>::Start(std::move(context), std::move(options), end);
  }
  if (role == TaskRole::kWorker) {
    WorkerFlags flags;
    COHORT_ASSIGN_OR_RETURN(
        auto context, Read(AddWorkerFlags, &flags, arguments, Role::kWorker, tf_config, log_file));
    auto options = MakeServerOptions(flags, context, data_dir.c_str());
    return ServerTask<WorkerServer>::Start(std::move(context), std::move(options), end);
  }
  if (role == TaskRole::kEvaluator) {
    EvaluatorFlags flags;
    COHORT_ASSIGN_OR_RETURN(auto context, Read(AddEvaluatorFlags, &flags, arguments,
                                               Role::kEvaluator, tf_config, log_file));
    return EvaluatorTask::Start(std::move(context), flags, data_dir, end);
  }
  ChiefFlags flags;
  COHORT_ASSIGN_OR_RETURN(
      auto context, Read(AddChiefFlags, &flags, arguments, Role::kChief, tf_config, log_file));
  return ChiefTask::Start(std::move(context), flags, data_dir, end);
}

}  // namespace

ExitEvent::ExitEvent() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void ExitEvent::Set(int exit_code) {
  MutexLock lock(&mu_);
  if (exit_code_.has_value()) return;
  exit_code_ = exit_code;
  eventfd_write(fd_.get(), 1);
}

std::optional<int> ExitEvent::exit_code() {
  MutexLock lock(&mu_);
  return exit_code_;
}

absl::StatusOr<std::unique_ptr<MiniCluster>> InProcessCluster::Create(MiniClusterOptions options) {
  return std::unique_ptr<MiniCluster>(new InProcessCluster(std::move(options)));
}

InProcessCluster::InProcessCluster(MiniClusterOptions options) : MiniCluster(std::move(options)) {}
InProcessCluster::~InProcessCluster() = default;

absl::Status InProcessCluster::Start(TaskRole role, int index, const TaskFlags& flags) {
  if (Running(role, index)) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  const Key key{role, index};
  tasks_.erase(key);
  BeginLife(role, index);
  auto end = std::make_unique<ExitEvent>();
  COHORT_ASSIGN_OR_RETURN(
      auto task, StartTask(role, Arguments(role, index, flags), TfConfig(role, index),
                           LogFile(role, index), options_.data_dir, runtime_dir(), end.get()));
  ends_[key] = std::move(end);
  tasks_[key] = std::move(task);
  return absl::OkStatus();
}

absl::Status InProcessCluster::Kill(TaskRole role, int index) {
  if (!Running(role, index)) {
    return FailedPrecondition("{}:{} does not run", TaskRoleName(role), index);
  }
  tasks_.erase({role, index});
  ends_.at({role, index})->Set(kKilled);
  return absl::OkStatus();
}

bool InProcessCluster::Running(TaskRole role, int index) {
  const auto it = ends_.find({role, index});
  return it != ends_.end() && !it->second->exit_code().has_value();
}

int InProcessCluster::EndFd(TaskRole role, int index) {
  const auto it = ends_.find({role, index});
  return it == ends_.end() ? -1 : it->second->fd();
}

int InProcessCluster::ExitCode(TaskRole role, int index) {
  tasks_.erase({role, index});
  return ends_.at({role, index})->exit_code().value_or(kKilled);
}

}  // namespace cohort
