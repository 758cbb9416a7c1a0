#include "worker/worker_server.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/device/check_device.h"
#include "common/exec/resident_access.h"
#include "common/graph/segments.h"
#include "common/kernels/kernel.h"
#include "common/optimizers/resident_variables.h"
#include "common/os/process_usage.h"
#include "common/plugin/load_plugins.h"
#include "worker/worker_options.h"

namespace cohort {
namespace {

constexpr Duration kLookForChief = std::chrono::milliseconds(50);

// What the numeric fingerprint holds about a device: GPUs of one kind compute the same bits.
std::string KindOf(const Device& device) {
  const DeviceInfo info = device.info();
  return fmt::format("{} {} {}", device.kind(), info.model, info.capability);
}

}  // namespace

WorkerServer::WorkerServer(Options options)
    : options_(std::move(options)),
      step_metrics_(&registry_),
      served_(&options_, &clock_, &registry_) {}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(Options options) {
  std::unique_ptr<WorkerServer> server(new WorkerServer(std::move(options)));
  const Options& o = server->options_;
  COHORT_RETURN_IF_ERROR(server->OpenDevices());
  RemoteAccessOptions remote;
  remote.exchange = o.exchange;
  remote.host_id = o.host_id;
  remote.security = o.security;
  remote.local = o.local_servers;
  remote.log = o.log;
  remote.on_secret_refused = [s = server.get()](const absl::Status& refused) {
    MutexLock lock(&s->mu_);
    s->refused_ = WithExitCode(refused, ExitCode::kConfig);
  };
  server->remote_ = std::make_unique<RemoteAccess>(remote);
  if (o.owner.has_value()) {
    server->ring_ = std::make_unique<GradientRing>(GradientRing::Options{
        .incarnation = o.incarnation,
        .security = o.security,
        .log = o.log,
        .service = &server->peers_,
        .should_stop = [s = server.get()](uint64_t id) { return s->core_->ShouldStop(id); }});
  }
  WorkerCore::Options core;
  core.index = o.index;
  core.incarnation = o.incarnation;
  core.cores = static_cast<uint32_t>(o.threads);
  core.host_id = o.host_id;
  core.chief_timeout = o.chief_timeout;
  core.closures = o.closures;
  core.instruction_set = std::string(CpuInstructionSet());
  core.libraries = CpuLibraries();
  if (!server->devices_.empty()) core.device_kind = KindOf(*server->devices_[0]);
  for (const AddedClass& added : AddedDataClasses()) core.classes.push_back(added.name);
  server->core_ = std::make_unique<WorkerCore>(core, &server->clock_, o.log,
                                               static_cast<WorkerEffects*>(server.get()));
  server->MakeSegmentDevices();
  server->ExportMetrics();
  COHORT_RETURN_IF_ERROR(server->Listen());
  {
    MutexLock lock(&server->mu_);
    server->step_running_ = true;
  }
  server->step_thread_ = std::thread([s = server.get()] { s->StepThread(); });
  return server;
}

template <typename T>
double WorkerServer::SumOfUsage(T DeviceUsage::*field) const {
  double sum = 0;
  for (const std::shared_ptr<Device>& device : devices_) {
    const auto usage = UsageOf(*device, options_.devices.virtual_gpus);
    if (usage.has_value()) sum += static_cast<double>((*usage).*field);
  }
  return sum;
}

absl::Status WorkerServer::OpenDevices() {
  COHORT_ASSIGN_OR_RETURN(devices_, cohort::OpenDevices(options_.devices));
  for (const std::shared_ptr<Device>& device : devices_) {
    COHORT_RETURN_IF_ERROR(CheckDevice(device.get()));
    const DeviceInfo info = device->info();
    options_.log->Info("device", {{"name", device->name()},
                                  {"model", info.model},
                                  {"memory_bytes", info.memory_bytes},
                                  {"free_bytes", info.free_bytes}});
  }
  if (devices_.size() == 1 && options_.local_servers != nullptr) {
    options_.local_servers->AddDevice(options_.index, devices_[0]);
  }
  return absl::OkStatus();
}

void WorkerServer::MakeSegmentDevices() {
  local_devices_ = std::make_unique<LocalDevices>(devices_, options_.devices, options_.threads);
  PeerDevices::Options peers;
  peers.worker = options_.index;
  peers.addresses = options_.worker_addresses;
  peers.security = options_.security;
  peers.timeout = options_.peer_timeout;
  peers.log = options_.log;
  peer_devices_ = std::make_unique<PeerDevices>(peers, local_devices_.get());
  segments_ = std::make_unique<SegmentService>(
      SegmentService::Options{.worker = options_.index, .incarnation = options_.incarnation},
      local_devices_.get(), &registry_, options_.log);
}

absl::Status WorkerServer::Listen() {
  StreamServer::Options stream;
  stream.thread_name = "control";
  ServedPart own;
  own.methods = service_.Methods(core_.get(), &clock_);
  own.methods.merge(segments_->Methods());
  own.health_service = "cohort.v1.Worker";
  own.metrics = [this] { return registry_.Text(); };
  own.status = [this] { return core_->StatusText(); };
  std::vector<ServedPart> parts;
  if (options_.owner.has_value()) {
    stream.take_socket = peers_.SocketTaker();
    // The other threads serve the owner.
    for (const auto& [method, handler] : own.methods) own.control_methods.push_back(method);
    own.methods.merge(peers_.Methods());
    parts.push_back(*options_.owner);
  }
  parts.insert(parts.begin(), std::move(own));
  return served_.Listen(std::move(stream), std::move(parts));
}

void WorkerServer::ExportMetrics() {
  const auto add = [this](const char* name, const char* help,
                          uint64_t RemoteAccess::Counters::*field) {
    registry_.AddCallback(name, help, [remote = remote_.get(), field] {
      return static_cast<double>(remote->counters().*field);
    });
  };
  add("cohort_worker_ps_requests", "Requests to parameter servers",
      &RemoteAccess::Counters::requests);
  add("cohort_worker_ps_resends", "Requests that were sent again",
      &RemoteAccess::Counters::resends);
  add("cohort_worker_ps_bytes_sent", "Payload bytes pushed", &RemoteAccess::Counters::bytes_sent);
  add("cohort_worker_ps_bytes_received", "Payload bytes pulled",
      &RemoteAccess::Counters::bytes_received);
  add("cohort_worker_ps_bytes_copied", "Pulled bytes that were copied to where the step reads them",
      &RemoteAccess::Counters::bytes_copied);
  add("cohort_worker_ps_bytes_placed",
      "Pushed bytes that were copied to memory that both ends share",
      &RemoteAccess::Counters::bytes_placed);
  add("cohort_worker_ps_bytes_lent", "Pulled bytes that steps read where the server has them",
      &RemoteAccess::Counters::bytes_lent);
  add("cohort_worker_ps_bytes_in_place",
      "Pushed bytes that the server reads where the step wrote them",
      &RemoteAccess::Counters::bytes_in_place);
  add("cohort_worker_ps_push_areas_renewed",
      "Push areas that were replaced, because a server might still read them",
      &RemoteAccess::Counters::areas_renewed);
  add("cohort_worker_ps_connections", "Streams to parameter servers opened",
      &RemoteAccess::Counters::connections);
  add("cohort_worker_ps_sockets_given_up",
      "Unix sockets that never answered and were replaced by the address of the server",
      &RemoteAccess::Counters::sockets_given_up);
  const auto add_peer = [this](const char* name, const char* help,
                               uint64_t PeerDevices::Counters::*field) {
    registry_.AddCallback(name, help, [peers = peer_devices_.get(), field] {
      return static_cast<double>(peers->counters().*field);
    });
  };
  add_peer("cohort_worker_peer_segments", "Parts of layers that ran on other workers",
           &PeerDevices::Counters::segments);
  add_peer("cohort_worker_peer_resends", "Parts of layers that were sent to other workers again",
           &PeerDevices::Counters::resends);
  add_peer("cohort_worker_peer_bytes_sent", "Bytes of values sent to layers on other workers",
           &PeerDevices::Counters::bytes_sent);
  add_peer("cohort_worker_peer_bytes_received",
           "Bytes of values received from layers on other workers",
           &PeerDevices::Counters::bytes_received);
  const auto add_ring = [this](const char* name, const char* help,
                               uint64_t GradientRing::Counters::*field) {
    registry_.AddCallback(name, help, [ring = ring_.get(), field] {
      return ring == nullptr ? 0.0 : static_cast<double>(ring->counters().*field);
    });
  };
  add_ring("cohort_worker_ring_bytes_sent", "Bytes of gradients sent to other replicas in rings",
           &GradientRing::Counters::bytes_sent);
  add_ring("cohort_worker_ring_bytes_received",
           "Bytes of gradients received from other replicas in rings",
           &GradientRing::Counters::bytes_received);
  add_ring("cohort_worker_ring_sums", "Sums of gradients over all replicas that were begun",
           &GradientRing::Counters::sums);
  add_ring("cohort_worker_ring_early_sums",
           "Those sums of them that were begun while the backward pass was running",
           &GradientRing::Counters::early_sums);
  registry_.AddCallback("cohort_worker_gpu_memory_used_bytes",
                        "Bytes that all processes use on the GPUs of this worker",
                        [this] { return SumOfUsage(&DeviceUsage::used_bytes); });
  registry_.AddCallback("cohort_worker_gpu_utilization",
                        "GPUs of this worker that are busy: the sum of the parts of time",
                        [this] { return SumOfUsage(&DeviceUsage::utilization); });
}

void WorkerServer::StepThread() {
  StepLoop::Options options;
  options.compile.intra_op_threads = options_.threads;
  options.compile.devices = devices_;
  options.compile.segment_devices = peer_devices_.get();
  options.compile.allocate_push_areas = [this](size_t bytes) {
    return remote_->AllocatePushAreas(bytes);
  };
  options.data.data_dir = options_.data_dir;
  options.data.threads = options_.threads;
  options.data.log = options_.log;
  {
    StepLoop loop(options, core_.get(), static_cast<StepVariables*>(this), &clock_, &step_metrics_,
                  options_.log);
    loop.Run();
  }
  if (ring_ != nullptr) ring_->Leave();
  MutexLock lock(&mu_);
  step_running_ = false;
  step_ended_.SignalAll();
}

bool WorkerServer::WaitForStepThread(TimePoint deadline) {
  MutexLock lock(&mu_);
  while (step_running_ && step_ended_.WaitUntil(&mu_, deadline)) {
  }
  return !step_running_;
}

bool WorkerServer::StopStepThread(std::chrono::milliseconds grace, std::optional<Duration> patience,
                                  bool without_chief) {
  if (!step_thread_.joinable()) return true;
  core_->Drain("it is ending");
  remote_->Wake();
  const TimePoint deadline = clock_.Now() + grace;
  while (!WaitForStepThread(std::min(deadline, clock_.Now() + kLookForChief)) &&
         clock_.Now() < deadline && (without_chief || core_->adopted())) {
  }
  core_->StopRunning();
  if (patience.has_value() && !WaitForStepThread(clock_.Now() + *patience)) return false;
  step_thread_.join();
  core_->Flush();
  return true;
}

WorkerServer::~WorkerServer() {
  served_.Kill(Unavailable("worker:{} has ended", options_.index));
  StopStepThread(std::chrono::milliseconds(0), std::nullopt, /*without_chief=*/false);
}

absl::Status WorkerServer::Tick() {
  core_->Tick();
  {
    MutexLock lock(&mu_);
    COHORT_RETURN_IF_ERROR(refused_);
  }
  return served_.Tick(core_->adopted() || core_->probed());
}

std::string WorkerServer::StatusLine() const {
  if (!core_->adopted()) return served_.WaitingLine();
  return fmt::format("{} steps, {} examples", step_metrics_.steps->value(),
                     step_metrics_.examples->value());
}

std::vector<uint64_t> WorkerServer::Turns() {
  std::vector<uint64_t> turns = served_.Turns();
  // With a server in this process, a step may need no turn of the network. A replica that waits for
  // another one does not hang.
  turns.push_back(remote_->turns() + step_metrics_.steps->value() +
                  (ring_ == nullptr ? 0 : ring_->turns()));
  return turns;
}

absl::Status WorkerServer::Shutdown(const absl::Status& why, std::chrono::milliseconds grace) {
  served_.StopServing();
  const bool stopped = StopStepThread(grace, options_.stop_wait, /*without_chief=*/why.ok());
  served_.CloseStreams(stopped ? EndedInOrder(why) : why);
  if (stopped) return absl::OkStatus();
  return DeadlineExceeded(
      "the step thread of worker:{} has not stopped for {} s: its step, or the read of a data "
      "file, "
      "does not end",
      options_.index, ToSeconds(grace + options_.stop_wait));
}

void WorkerServer::Send(Adoption::Connection connection, const v1::WorkerToChief& message) {
  service_.Send(connection, message);
}
void WorkerServer::RoutesChanged(std::shared_ptr<const v1::Routes> routes) {
  if (ring_ != nullptr) ring_->SetRoutes(routes);
  remote_->thread()->SetRoutes(std::move(routes));
}
void WorkerServer::GenerationChanged(uint64_t generation) {
  remote_->thread()->SetGeneration(generation);
}
void WorkerServer::WatermarkChanged(uint64_t watermark) {
  remote_->thread()->SetWatermark(watermark);
}
void WorkerServer::Interrupt() {
  remote_->thread()->Interrupt();
  peer_devices_->Interrupt();
}
void WorkerServer::WakeStep() { remote_->Wake(); }

void WorkerServer::Shutdown(bool job_finished, const std::string& reason) {
  served_.SetEnd(job_finished, reason);
}

v1::TaskFigures WorkerServer::Figures() {
  v1::TaskFigures figures;
  figures.set_memory_bytes(ReadProcessUsage().memory_bytes);
  if (remote_ == nullptr) return figures;
  const RemoteAccess::Counters counters = remote_->counters();
  figures.set_sent_bytes(counters.bytes_sent);
  figures.set_received_bytes(counters.bytes_received);
  for (const LinkWait& wait : remote_->TakeWaits()) {
    v1::LinkFigures* const link = figures.add_servers();
    link->set_server(wait.server);
    link->set_requests(wait.requests);
    link->set_p50_seconds(wait.p50_seconds);
    link->set_p99_seconds(wait.p99_seconds);
  }
  return figures;
}

absl::Status WorkerServer::PlaceVariables(uint64_t job) {
  if (options_.local_servers == nullptr || reader_job_ == job) return absl::OkStatus();
  // The values of the job before leave the device before those of this one come.
  reader_ = nullptr;
  auto placed = options_.local_servers->PlaceVariables(options_.index, job);
  // The tablets are being restored: the chief gets the closure back.
  if (absl::IsUnavailable(placed.status())) {
    return Aborted("{}", std::string(placed.status().message()));
  }
  reader_job_ = job;
  if (!placed.ok()) {
    options_.log->Failure(LogLevel::kWarning, "variables_stay_in_host_memory", placed.status());
    return absl::OkStatus();
  }
  reader_ = *std::move(placed);
  if (reader_ == nullptr) return absl::OkStatus();
  options_.log->Info("variables_on_device",
                     {{"device", devices_[0]->name()}, {"bytes", reader_->memory_bytes()}});
  return absl::OkStatus();
}

absl::StatusOr<bool> WorkerServer::CompileOnDevice(const Work& work, CompileOptions options,
                                                   StepProgram* program) {
  // A loss scale needs gradients in the host's memory.
  if (work.program->variables.empty() || work.program->loss_scaling.enabled() ||
      NamesDevices(*work.program)) {
    return false;
  }
  COHORT_RETURN_IF_ERROR(PlaceVariables(work.job));
  if (reader_ == nullptr) return false;
  options.variables = reader_.get();
  auto executable = Executable::Compile(*work.program, options);
  if (absl::IsUnimplemented(executable.status())) {
    options_.log->Failure(LogLevel::kInfo, "variables_not_resident", executable.status());
    return false;
  }
  if (absl::IsResourceExhausted(executable.status())) {
    return Annotate(executable.status(),
                    "beside all variables and their slots (`cohort train --host_variables` keeps "
                    "them in the host's memory)");
  }
  COHORT_ASSIGN_OR_RETURN(program->executable, std::move(executable));
  program->access = std::make_unique<ResidentAccess>(
      ResidentAccess::Options{remote_->thread(), options_.local_servers, options_.exchange},
      program->executable->program().variables, program->executable->device_parts());
  return true;
}

absl::Status WorkerServer::Compile(const Work& work, const CompileOptions& options,
                                   StepProgram* program) {
  COHORT_ASSIGN_OR_RETURN(const bool on_device, CompileOnDevice(work, options, program));
  if (!on_device) COHORT_RETURN_IF_ERROR(StepVariables::Compile(work, options, program));
  options_.log->Info("program_compiled", {{"program", work.program->name},
                                          {"bytes", program->executable->memory_bytes()},
                                          {"resident_variables", on_device}});
  return absl::OkStatus();
}

std::unique_ptr<VariableAccess> WorkerServer::ForProgram(std::span<const VariableDecl> variables) {
  return remote_->ForProgram(variables);
}
void WorkerServer::Wait(TimePoint deadline) { remote_->Wait(deadline); }

WorkerServer::Options MakeServerOptions(const WorkerFlags& flags, const RoleContext& context,
                                        const TaskEnvironment& environment) {
  WorkerServer::Options options{MakeServedTaskOptions(flags, context, environment)};
  options.devices = flags.devices;
  // A worker without a host id finds no server on its own host.
  if (flags.role.unix_socket_dir == "none") options.host_id.clear();
  options.data_dir = flags.data_dir.empty() ? environment.data_dir : flags.data_dir;
  for (const auto& [index, address] : context.cluster.tasks(Role::kWorker)) {
    options.worker_addresses[index] = address.ToString();
  }
  options.peer_timeout = FromSeconds(flags.peer_timeout_s);
  options.exchange.unreachable_after_us = MicrosFromSeconds(flags.ps_timeout_s);
  return options;
}

}  // namespace cohort
