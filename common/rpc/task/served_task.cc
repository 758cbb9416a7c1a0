#include "common/rpc/task/served_task.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/status.h"
#include "common/cluster/tf_config.h"
#include "common/os/identity.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/rpc/admin/admin_server.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/task/join_cluster.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kCloseTime{2000};
constexpr std::chrono::seconds kJoinedWait{60};

std::string AddressOf(const ClusterSpec& cluster, Task task) {
  const std::optional<Address> address = cluster.Find(task);
  return address.has_value() ? address->ToString() : "";
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ServedTaskOptions MakeServedTaskOptions(const ServedFlags& flags, const RoleContext& context,
                                        const TaskEnvironment& environment) {
  ServedTaskOptions options;
  options.listen.push_back(context.bind->ToString());
  options.admin_address = AdminAddress(flags.role);
  options.security = context.security;
  options.threads = context.threads;
  options.index = context.task.index;
  options.incarnation = context.incarnation;
  options.host_id = context.host_id;
  options.address = AddressOf(context.cluster, context.task);
  options.chief_address = AddressOf(context.cluster, {Role::kChief, 0});
  options.chief_timeout = FromSeconds(flags.chief_timeout_s);
  options.chief_wait = FromSeconds(flags.chief_wait_s);
  // After that its place is gone: another start asks for one again.
  if (context.joined && (flags.chief_wait_s == 0 || options.chief_wait > kJoinedWait)) {
    options.chief_wait = kJoinedWait;
  }
  options.local_servers = environment.local_servers;
  options.log = context.log.get();
  options.on_done = environment.on_done;
  return options;
}

ServedTask::ServedTask(const ServedTaskOptions* options, const Clock* clock,
                       MetricsRegistry* registry)
    : options_(*options), registry_(registry), waiting_(clock, {.timeout = options->chief_wait}) {}
ServedTask::~ServedTask() = default;

absl::Status ServedTask::Listen(StreamServer::Options stream, std::vector<ServedPart> parts) {
  if (options_.listen.empty()) return absl::OkStatus();
  options_.security->AddMetrics(registry_);
  ReportGrpcTuning(registry_, options_.log);
  stream.listen = options_.listen;
  stream.security = options_.security;
  if (const size_t memory = AvailableMemoryBytes(); memory > 0) {
    stream.transport.QueueUpTo(memory);
    stream.transport.max_unfinished_bytes =
        std::min(stream.transport.max_unfinished_bytes, memory / 2);
  }
  StreamServer::Methods methods;
  for (ServedPart& part : parts) {
    stream.threads = std::max(stream.threads, part.threads);
    stream.health_services.push_back(part.health_service);
    stream.control_methods.insert(stream.control_methods.end(), part.control_methods.begin(),
                                  part.control_methods.end());
    methods.merge(part.methods);
    part.methods.clear();
  }
  parts_ = std::move(parts);
  COHORT_ASSIGN_OR_RETURN(server_, StreamServer::Start(stream, std::move(methods)));
  if (!options_.admin_address.empty()) {
    AdminServer::Options admin;
    admin.address = options_.admin_address;
    admin.health = [this] {
      MutexLock lock(&mu_);
      return hang_;
    };
    admin.readiness = [this] {
      for (const ServedPart& part : parts_) {
        if (!part.readiness) continue;
        if (std::string why = part.readiness(); !why.empty()) return why;
      }
      return std::string();
    };
    admin.metrics = [this] {
      std::string text;
      for (const ServedPart& part : parts_) text += part.metrics();
      return text;
    };
    admin.status = parts_.front().status;
    COHORT_ASSIGN_OR_RETURN(admin_, AdminServer::Start(std::move(admin)));
  }
  if (options_.log == nullptr) return absl::OkStatus();
  options_.log->Info("listening", {{"port", port()},
                                   {"unix_socket", options_.unix_socket},
                                   {"admin_port", admin_port()},
                                   {"threads", options_.threads},
                                   {"incarnation", fmt::format("{:016x}", options_.incarnation)}});
  return absl::OkStatus();
}

int ServedTask::admin_port() const { return admin_ == nullptr ? -1 : admin_->port(); }

std::vector<CompletionLoop*> ServedTask::loops() const {
  return server_ == nullptr ? std::vector<CompletionLoop*>() : server_->loops();
}

std::vector<uint64_t> ServedTask::Turns() const {
  return server_ == nullptr ? std::vector<uint64_t>() : server_->Turns();
}

absl::Status ServedTask::Tick(bool chief_connected) {
  return WaitForChief(&waiting_, chief_connected, options_.chief_address, options_.address,
                      options_.log);
}

std::string ServedTask::WaitingLine() const {
  return fmt::format("waiting for the chief{}{}", options_.chief_address.empty() ? "" : " at ",
                     options_.chief_address);
}

void ServedTask::SetEnd(bool job_finished, const std::string& reason) {
  {
    MutexLock lock(&mu_);
    end_ = TaskEnd{job_finished, reason};
  }
  if (options_.on_done) options_.on_done();
}

void ServedTask::SetHang(const std::string& why) {
  MutexLock lock(&mu_);
  hang_ = why;
}

std::optional<TaskEnd> ServedTask::end() const {
  MutexLock lock(&mu_);
  return end_;
}

void ServedTask::StopServing() {
  if (server_ != nullptr) server_->SetServing(false);
}

void ServedTask::CloseStreams(const absl::Status& why) {
  if (server_ != nullptr) server_->Shutdown(why, kCloseTime);
}

void ServedTask::Kill(const absl::Status& why) {
  admin_.reset();
  if (server_ != nullptr) server_->Shutdown(why, std::chrono::milliseconds(0));
}

namespace {

// The task asks the chief of a running job for its place (--join), and returns its TF_CONFIG.
// `signal`: the one that has ended the wait.
absl::StatusOr<std::string> Join(const ServedProgram& program, const ServedFlags& flags,
                                 SignalWaiter* signals, int* signal) {
  const absl::StatusOr<TfConfig> config = ParseTfConfig(Variable("TF_CONFIG"));
  if (config.ok() && config->task.has_value()) {
    return UsageError(
        "--join: TF_CONFIG names this task already, {}: unset it, or leave out --join",
        config->task->ToString());
  }
  JoinOptions join;
  join.chiefs = flags.join;
  join.role = program.role;
  join.bind = flags.role.bind;
  // No index: `cohort certs` makes a certificate for all workers.
  COHORT_ASSIGN_OR_RETURN(
      join.security,
      Security::Create({.allow_insecure = flags.role.allow_insecure,
                        .tls_dir = Security::DirectoryOf({program.role, -1}, flags.role.tls_dir,
                                                         /*replicas=*/false),
                        .secret_file = flags.role.secret_file}));
  join.wait_s = flags.chief_wait_s;
  join.wait = [signals, signal](Duration wait) {
    *signal = signals->WaitFor(wait).value_or(0);
    return *signal == 0;
  };
  join.on_wait = [&program](const std::string& why) {
    std::fprintf(stderr, "%s: waits to join, %s\n", program.name, why.c_str());
  };
  return JoinCluster(join);
}

absl::StatusOr<int> Run(const ServedProgram& program, const ServedFlags& flags,
                        const StartServedTask& start) {
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  const char* config = std::getenv("TF_CONFIG");
  std::string joined;
  if (!flags.join.empty()) {
    int signal = 0;
    auto answer = Join(program, flags, signals.get(), &signal);
    if (signal != 0) return ExitCodeOfSignal(signal);
    if (absl::IsOutOfRange(answer.status())) {
      const std::string why(answer.status().message());
      std::fprintf(stderr, "%s: does not join: %s\n", program.name, why.c_str());
      return 0;
    }
    COHORT_ASSIGN_OR_RETURN(joined, std::move(answer));
    config = joined.c_str();
  }
  COHORT_ASSIGN_OR_RETURN(RoleContext context, MakeRoleContext(flags.role, program.role, config));
  context.joined = !flags.join.empty();
  const TaskEnvironment environment{.data_dir = Variable("COHORT_DATA_DIR"),
                                    .runtime_dir = Variable("XDG_RUNTIME_DIR"),
                                    .local_servers = nullptr,
                                    .on_done = [&signals] { signals->NotifyDone(); }};
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<ServingTask> task, start(context, environment));
  const auto grace =
      std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(flags.drain_timeout_s));
  return RunUntilEnd(task.get(), signals.get(), context.log.get(),
                     {.program = program.name,
                      .role = program.title,
                      .grace_after_signal = grace,
                      .grace_at_end = program.drains_at_end ? grace : std::chrono::milliseconds(0),
                      .stall_timeout = FromSeconds(flags.stall_timeout_s),
                      .notifier = &notifier});
}

}  // namespace

int RunProgram(int argc, char** argv, const ServedProgram& program,
               const std::function<void(FlagSet*)>& add, const ServedFlags& flags,
               const StartServedTask& start) {
  PrepareProcess(program.name);
  FlagSet set(program.name, program.help);
  add(&set);
  if (const auto exit = set.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = Run(program, flags, start);
  return code.ok() ? *code : ExitWith(program.name, code.status());
}

}  // namespace cohort
