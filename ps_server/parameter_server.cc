#include "ps_server/parameter_server.h"

#include <thread>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/signals.h"
#include "common/base/status.h"
#include "common/rpc/admin_server.h"
#include "common/rpc/stream_server.h"
#include "ps_server/ps_options.h"

namespace cohort {
namespace {

constexpr std::chrono::milliseconds kTick{500};
constexpr std::chrono::milliseconds kSnapshotGrace{30'000};

}  // namespace

ParameterServer::ParameterServer(Options options)
    : options_(std::move(options)),
      service_(PsService::Options()),
      waiting_(&clock_, {.timeout = options_.chief_wait}) {}

PsCore::Options ParameterServer::CoreOptions() const {
  PsCore::Options options;
  options.index = options_.index;
  options.incarnation = options_.incarnation;
  options.cores = static_cast<uint32_t>(options_.threads);
  options.unix_socket = options_.unix_socket;
  options.host_id = options_.host_id;
  options.chief_timeout = options_.chief_timeout;
  return options;
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Start(Options options) {
  std::unique_ptr<ParameterServer> server(new ParameterServer(std::move(options)));
  if (!server->options_.apply_log.empty()) {
    COHORT_ASSIGN_OR_RETURN(server->apply_log_, ApplyLog::Open(server->options_.apply_log,
                                                               server->options_.incarnation));
  }
  PsCore::Environment environment;
  environment.clock = &server->clock_;
  environment.store = &server->store_;
  environment.metrics = &server->registry_;
  environment.log = server->options_.log;
  environment.apply_log = server->apply_log_.get();
  environment.sink = &server->service_;
  environment.background = [s = server.get()](std::function<void()> function) {
    s->background_.Run(std::move(function));
  };
  environment.on_shutdown = [s = server.get()](bool job_finished, const std::string& reason) {
    {
      MutexLock lock(&s->mu_);
      s->end_ = End{job_finished, reason};
    }
    if (s->options_.on_done) s->options_.on_done();
  };
  server->core_ = std::make_unique<PsCore>(server->CoreOptions(), std::move(environment));
  COHORT_RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status ParameterServer::Listen() {
  StreamServer::Options listen;
  listen.listen = options_.listen;
  listen.allow_insecure = options_.allow_insecure;
  listen.threads = options_.threads;
  listen.thread_name = "ps";
  listen.health_services = {"cohort.v1.ParameterServer"};
  COHORT_ASSIGN_OR_RETURN(server_,
                          StreamServer::Start(listen, service_.Methods(core_.get(), &clock_)));
  if (options_.admin_address.empty()) return absl::OkStatus();
  AdminServer::Options admin;
  admin.address = options_.admin_address;
  admin.allow_insecure = options_.allow_insecure;
  admin.metrics = [this] { return registry_.Text(); };
  admin.status = [this] { return core_->StatusText(); };
  COHORT_ASSIGN_OR_RETURN(admin_, AdminServer::Start(std::move(admin)));
  return absl::OkStatus();
}

ParameterServer::~ParameterServer() {
  admin_.reset();
  if (server_ != nullptr) {
    server_->Shutdown(Unavailable("ps:{} has ended", options_.index), std::chrono::milliseconds(0));
  }
  background_.Stop();
  server_.reset();
  core_.reset();
}

int ParameterServer::port() const { return server_->port(); }
int ParameterServer::admin_port() const { return admin_ == nullptr ? -1 : admin_->port(); }

absl::Status ParameterServer::Tick() {
  if (core_->chief_connected()) {
    waiting_.Arrived("chief");
    return absl::OkStatus();
  }
  waiting_.Expect("chief", options_.chief_address);
  if (const auto line = waiting_.Tick()) options_.log->Info("waiting", {{"for", *line}});
  return waiting_.CheckDeadline();
}

std::optional<ParameterServer::End> ParameterServer::end() const {
  MutexLock lock(&mu_);
  return end_;
}

void ParameterServer::Shutdown(const absl::Status& why, std::chrono::milliseconds grace) {
  server_->SetServing(false);
  const TimePoint deadline = clock_.Now() + grace;
  while (core_->snapshots_under_way() > 0 && clock_.Now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  server_->Shutdown(why, std::chrono::milliseconds(2000));
  background_.Stop();
}

ParameterServer::Options MakeServerOptions(const PsFlags& flags, const RoleContext& context) {
  ParameterServer::Options options;
  options.listen.push_back(context.bind->ToString());
  if (!flags.role.unix_socket_dir.empty()) {
    options.unix_socket =
        fmt::format("{}/ps-{}.sock", flags.role.unix_socket_dir, context.task.index);
    options.listen.push_back("unix:" + options.unix_socket);
  }
  if (flags.role.admin_port >= 0) {
    options.admin_address = fmt::format("127.0.0.1:{}", flags.role.admin_port);
  }
  options.allow_insecure = flags.role.allow_insecure;
  options.threads = context.threads;
  options.index = static_cast<uint32_t>(context.task.index);
  options.incarnation = context.incarnation;
  options.host_id = context.host_id;
  options.apply_log = flags.apply_log;
  const auto chief = context.cluster.Find({Role::kChief, 0});
  if (chief.has_value()) options.chief_address = chief->ToString();
  options.chief_timeout = FromSeconds(flags.chief_timeout_s);
  options.chief_wait = FromSeconds(flags.chief_wait_s);
  options.log = context.log.get();
  return options;
}

int RunUntilEnd(ParameterServer* server, SignalWaiter* signals, Logger* log) {
  std::optional<int> signal;
  absl::Status status;
  while (status.ok() && !(signal = signals->WaitFor(kTick)).has_value()) status = server->Tick();
  if (!status.ok()) {
    log->Failure(LogLevel::kError, "ends", status);
    server->Shutdown(status, std::chrono::milliseconds(0));
    return ExitWith("cohort-ps", status);
  }
  if (*signal != 0) {
    log->Info("ends", {{"signal", *signal}});
    server->Shutdown(Unavailable("the parameter server was asked to end (signal {})", *signal),
                     kSnapshotGrace);
    return ExitCodeOfSignal(*signal);
  }
  const ParameterServer::End end = server->end().value_or(ParameterServer::End());
  log->Info("ends", {{"job_finished", end.job_finished}, {"reason", end.reason}});
  server->Shutdown(absl::OkStatus(), kSnapshotGrace);
  if (end.job_finished) return static_cast<int>(ExitCode::kOk);
  return ExitWith("cohort-ps", Unavailable("the chief ended the job: {}", end.reason));
}

}  // namespace cohort
