#include "tests/cluster/in_process_cluster.h"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/exit_code.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "evaluator/evaluator.h"
#include "evaluator/evaluator_options.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"
#include "tests/cluster/log_tail.h"
#include "tests/cluster/process_cluster.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {
namespace {

constexpr auto kTick = std::chrono::milliseconds(100);

// What a main() does around its owner object, on a thread: ticks it until it is done or stopped.
class Attendant {
 public:
  // `tick` returns the exit code once the task has ended.
  explicit Attendant(std::function<std::optional<int>()> tick)
      : thread_([this, tick = std::move(tick)] { Run(tick); }) {}
  ~Attendant() { Stop(); }

  // Ends the thread without an exit code.
  void Stop() {
    {
      MutexLock lock(&mu_);
      stopping_ = true;
      wake_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
  }
  void Wake() { wake_.SignalAll(); }
  std::optional<int> exit_code() {
    MutexLock lock(&mu_);
    return exit_code_;
  }

 private:
  void Run(const std::function<std::optional<int>()>& tick) {
    while (true) {
      const std::optional<int> code = tick();
      MutexLock lock(&mu_);
      if (code.has_value()) exit_code_ = code;
      if (code.has_value() || stopping_) return;
      wake_.WaitUntil(&mu_, std::chrono::steady_clock::now() + kTick);
    }
  }

  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<int> exit_code_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

template <typename Server>
std::optional<int> TickServer(Server* server) {
  const absl::Status status = server->Tick();
  if (!status.ok()) return static_cast<int>(ExitCodeOf(status));
  const auto end = server->end();
  if (!end.has_value()) return std::nullopt;
  server->Shutdown(absl::OkStatus(), std::chrono::milliseconds(0));
  return end->job_finished ? 0 : static_cast<int>(ExitCode::kUnavailable);
}

// A worker or a parameter server.
template <typename Server>
class ServerTask : public InProcessTask {
 public:
  static absl::StatusOr<std::unique_ptr<InProcessTask>> Start(RoleContext context,
                                                              typename Server::Options options) {
    auto self = std::unique_ptr<ServerTask>(new ServerTask(std::move(context)));
    options.log = self->context_.log.get();
    COHORT_ASSIGN_OR_RETURN(self->server_, Server::Start(std::move(options)));
    self->attendant_.emplace([server = self->server_.get()] { return TickServer(server); });
    return self;
  }
  ~ServerTask() override {
    if (attendant_.has_value()) attendant_->Stop();
  }
  std::optional<int> exit_code() override { return attendant_->exit_code(); }

 private:
  explicit ServerTask(RoleContext context) : context_(std::move(context)) {}
  RoleContext context_;
  std::unique_ptr<Server> server_;
  std::optional<Attendant> attendant_;
};

class ChiefTask : public InProcessTask {
 public:
  static absl::StatusOr<std::unique_ptr<InProcessTask>> Start(RoleContext context,
                                                              const ChiefFlags& flags,
                                                              const std::string& data_dir) {
    auto self = std::unique_ptr<ChiefTask>(new ChiefTask(std::move(context)));
    COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                            MakeChiefOptions(flags, self->context_, data_dir.c_str()));
    options.progress_output = [](std::string_view) {};
    options.on_done = [raw = self.get()] {
      MutexLock lock(&raw->mu_);
      raw->done_ = true;
    };
    COHORT_ASSIGN_OR_RETURN(self->chief_, Chief::Start(std::move(options)));
    return self;
  }
  ~ChiefTask() override { chief_.reset(); }
  std::optional<int> exit_code() override {
    {
      MutexLock lock(&mu_);
      if (!done_) return std::nullopt;
    }
    const auto report = chief_->Wait();
    if (!report.ok()) context_.log->Failure(LogLevel::kError, "ends", report.status());
    return static_cast<int>(ExitCodeOf(report.status()));
  }

 private:
  explicit ChiefTask(RoleContext context) : context_(std::move(context)) {}
  RoleContext context_;
  Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::unique_ptr<Chief> chief_;
};

class EvaluatorTask : public InProcessTask {
 public:
  static absl::StatusOr<std::unique_ptr<InProcessTask>> Start(RoleContext context,
                                                              const EvaluatorFlags& flags,
                                                              const std::string& data_dir) {
    auto self = std::unique_ptr<EvaluatorTask>(new EvaluatorTask(std::move(context)));
    Evaluator::Options options = MakeEvaluatorOptions(flags, self->context_, data_dir.c_str());
    COHORT_ASSIGN_OR_RETURN(self->evaluator_, Evaluator::Create(std::move(options)));
    self->attendant_.emplace([evaluator = self->evaluator_.get()]() -> std::optional<int> {
      const absl::StatusOr<bool> more = evaluator->Poll();
      if (!more.ok()) return static_cast<int>(ExitCodeOf(more.status()));
      return evaluator->done() ? std::optional<int>(0) : std::nullopt;
    });
    return self;
  }
  ~EvaluatorTask() override {
    if (attendant_.has_value()) attendant_->Stop();
  }
  std::optional<int> exit_code() override { return attendant_->exit_code(); }

 private:
  explicit EvaluatorTask(RoleContext context) : context_(std::move(context)) {}
  RoleContext context_;
  std::unique_ptr<Evaluator> evaluator_;
  std::optional<Attendant> attendant_;
};

Role ToRole(TaskRole role) {
  switch (role) {
    case TaskRole::kChief:
      return Role::kChief;
    case TaskRole::kWorker:
      return Role::kWorker;
    case TaskRole::kPs:
      return Role::kPs;
    case TaskRole::kEvaluator:
      return Role::kEvaluator;
  }
  return Role::kChief;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MiniCluster>> InProcessCluster::Create(MiniClusterOptions options) {
  return std::unique_ptr<MiniCluster>(new InProcessCluster(std::move(options)));
}

InProcessCluster::InProcessCluster(MiniClusterOptions options) : MiniCluster(std::move(options)) {
  const std::vector<int> ports = FreePorts(options_.workers + options_.servers);
  worker_ports_.assign(ports.begin(), ports.begin() + options_.workers);
  ps_ports_.assign(ports.begin() + options_.workers, ports.end());
}

InProcessCluster::~InProcessCluster() { tasks_.clear(); }

std::string InProcessCluster::LogFile(TaskRole role, int index) const {
  return fmt::format("{}/{}-{}.log", log_dir(), TaskRoleName(role), index);
}

absl::Status InProcessCluster::Start(TaskRole role, int index, const std::string& crash_point) {
  if (!crash_point.empty()) return Unimplemented("crash points end a process: use real ones");
  if (Running(role, index)) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  tasks_.erase({role, index});
  ended_.erase({role, index});
  RoleFlags flags;
  flags.threads = 1;
  flags.log_file = LogFile(role, index);
  COHORT_ASSIGN_OR_RETURN(
      RoleContext context,
      MakeRoleContext(flags, ToRole(role),
                      TfConfigText(role, index, worker_ports_, ps_ports_).c_str()));
  absl::StatusOr<std::unique_ptr<InProcessTask>> task;
  if (role == TaskRole::kPs) {
    PsFlags ps{.role = flags, .apply_log = apply_log(index)};
    auto options = MakeServerOptions(ps, context);
    task = ServerTask<ParameterServer>::Start(std::move(context), std::move(options));
  } else if (role == TaskRole::kWorker) {
    WorkerFlags worker;
    worker.role = flags;
    auto options = MakeServerOptions(worker, context, options_.data_dir.c_str());
    task = ServerTask<WorkerServer>::Start(std::move(context), std::move(options));
  } else if (role == TaskRole::kEvaluator) {
    EvaluatorFlags evaluator;
    evaluator.role = flags;
    evaluator.checkpoint_dir = checkpoint_dir();
    evaluator.log_dir = log_dir();
    task = EvaluatorTask::Start(std::move(context), evaluator, options_.data_dir);
  } else {
    ChiefFlags chief;
    chief.role = flags;
    chief.job = job_file();
    chief.checkpoint_dir = checkpoint_dir();
    chief.log_dir = log_dir();
    task = ChiefTask::Start(std::move(context), chief, options_.data_dir);
  }
  COHORT_RETURN_IF_ERROR(task.status());
  tasks_[{role, index}] = *std::move(task);
  return absl::OkStatus();
}

absl::Status InProcessCluster::Kill(TaskRole role, int index) {
  if (!Running(role, index)) {
    return FailedPrecondition("{}:{} does not run", TaskRoleName(role), index);
  }
  tasks_.erase({role, index});
  return absl::OkStatus();
}

bool InProcessCluster::Running(TaskRole role, int index) {
  const auto it = tasks_.find({role, index});
  if (it == tasks_.end()) return false;
  const std::optional<int> code = it->second->exit_code();
  if (!code.has_value()) return true;
  ended_[{role, index}] = *code;
  tasks_.erase(it);
  return false;
}

absl::StatusOr<int> InProcessCluster::WaitForExit(TaskRole role, int index,
                                                  std::chrono::seconds limit) {
  if (!Eventually(limit, [&] { return !Running(role, index); })) {
    return DeadlineExceeded("{}:{} still runs; its log ends with\n{}", TaskRoleName(role), index,
                            LogTail(role, index, 20));
  }
  const auto it = ended_.find({role, index});
  return it == ended_.end() ? 128 + 9 : it->second;
}

std::string InProcessCluster::LogTail(TaskRole role, int index, int lines) {
  return TailOf(LogFile(role, index), lines);
}

}  // namespace cohort
