#include "ps_server/parameter_server.h"

#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/cluster/socket_directory.h"
#include "common/optimizers/vector_loops.h"
#include "common/os/identity.h"
#include "common/os/process_usage.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_memory.h"
#include "common/rpc/stream/stream_server.h"
#include "ps_server/ps_options.h"
#include "ps_server/row_metrics.h"
#include "ps_server/server_memory.h"
#include "ps_server/unsent_answers.h"

namespace cohort {
namespace {

// How long a client may leave the values that it pulled untaken while others wait for the memory.
constexpr Duration kAnswerPatience = std::chrono::seconds(30);
// How long the close of a step waits for the blocks that a snapshot writes.
constexpr Duration kClosePatience = std::chrono::seconds(30);

}  // namespace

ParameterServer::ParameterServer(Options options)
    : options_(std::move(options)),
      memory_bytes_(AvailableMemoryBytes()),
      service_({.max_held_bytes = ServerMemory(memory_bytes_).most_held(),
                .max_superseded_bytes = ServerMemory(memory_bytes_).most_answers(),
                .incarnation = options_.incarnation}),
      copy_streams_(options_.security, options_.host_id),
      apply_pool_(options_.threads, "apply"),
      served_(&options_, &clock_, &registry_) {
  registry_.AddCallback("cohort_ps_held_bytes",
                        "Memory of requests whose end has not come, and that streams keep for more",
                        [this] { return static_cast<double>(service_.held().bytes()); });
  registry_.AddCallback(
      "cohort_ps_placed_bytes", "Pulled bytes that were copied to memory that both ends share",
      [this] { return static_cast<double>(service_.codec_counters().bytes_placed.load()); });
  registry_.AddCallback(
      "cohort_ps_superseded_bytes",
      "Older versions of weights and slots that readers, unsent answers and snapshots still need",
      [this] {
        service_.pins()->superseded_bytes();  // ends the pins of processes that have ended
        return static_cast<double>(core_->superseded_bytes());
      });
  const auto memory = [this](const char* name, const char* help,
                             uint64_t (ServerMemory::*term)() const) {
    registry_.AddCallback(name, help,
                          [this, term] { return static_cast<double>((core_->memory()->*term)()); });
  };
  memory("cohort_ps_memory_limit_bytes", "Memory that this server may use", &ServerMemory::limit);
  memory("cohort_ps_values_bytes", "Values and slots that this server has", &ServerMemory::values);
  memory("cohort_ps_memory_room_bytes", "What the limit leaves for requests, answers and copies",
         &ServerMemory::room);
  const auto disk = [this](const char* name, const char* help, double (*of)(RowDisk*)) {
    registry_.AddCallback(name, help, [this, of] {
      const auto tablets = core_->data_path()->tablets();
      return tablets == nullptr || tablets->disk == nullptr ? 0 : of(tablets->disk.get());
    });
  };
  disk("cohort_ps_table_memory_rows", "Rows in memory of tables with a limit",
       [](RowDisk* d) { return static_cast<double>(d->rows_in_memory()->load()); });
  disk("cohort_ps_table_disk_rows", "Rows of tables on disk",
       [](RowDisk* d) { return static_cast<double>(d->rows()); });
  disk("cohort_ps_table_disk_bytes", "Files of rows of tables on disk",
       [](RowDisk* d) { return static_cast<double>(d->file_bytes()); });
  registry_.AddCallback(
      "cohort_ps_unsent_answer_bytes", "Pulled values that clients have not taken yet",
      [this] { return static_cast<double>(core_->memory()->answers()->bytes()); });
  registry_.AddPreparation([this, metrics = std::make_shared<RowMetrics>(&registry_)] {
    v1::TaskFigures figures;
    core_->data_path()->AddFigures(&figures);
    metrics->Set(figures);
  });
  registry_.AddCallback("cohort_ps_early_bytes",
                        "Gradients of a synchronous step that came before their turn",
                        [this] { return static_cast<double>(core_->data_path()->EarlyBytes()); });
}

PsCore::Options ParameterServer::CoreOptions() {
  PsCore::Options options;
  options.index = static_cast<uint32_t>(options_.index);
  options.incarnation = options_.incarnation;
  options.cores = static_cast<uint32_t>(options_.threads);
  options.memory_bytes = memory_bytes_;
  options.memory_pool = MemoryPoolOf();
  options.close_patience = kClosePatience;
  options.unix_socket = options_.unix_socket;
  options.host_id = options_.host_id;
  options.chief_timeout = options_.chief_timeout;
  options.instruction_set = OptimizerInstructionSet();
  options.libraries = OptimizerLibraries();
  options.copies.fill_bytes_per_second = options_.copy_bytes_per_second;
  options.shard.helpers = &apply_pool_;
  if (!options_.unix_socket.empty()) options.shard.allocate_run = SharedMemory::Allocate;
  return options;
}

v1::TaskFigures ParameterServer::Figures() const {
  v1::TaskFigures figures;
  figures.set_memory_bytes(ReadProcessUsage().memory_bytes);
  const PsMetrics& metrics = *core_->metrics();
  figures.set_sent_bytes(metrics.bytes_out->value());
  figures.set_received_bytes(metrics.bytes_in->value());
  figures.set_pushes(metrics.pushes[v1::APPLIED]->value() + metrics.pushes[v1::STAGED]->value());
  core_->data_path()->AddFigures(&figures);
  return figures;
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
  if (!server->options_.listen.empty()) environment.copies = &server->copy_streams_;
  environment.background = [s = server.get()](std::function<void()> function) {
    s->background_.Post(std::move(function));
  };
  environment.tablet_work = [s = server.get()](std::function<void()> function) {
    s->tablet_work_.Post(std::move(function));
  };
  environment.on_step_open = [s = server.get()] {
    s->service_.ReleaseParked();
    s->local_->Release();
  };
  environment.on_shutdown = [s = server.get()](bool job_finished, const std::string& reason) {
    s->served_.SetEnd(job_finished, reason);
  };
  environment.figures = [s = server.get()] { return s->Figures(); };
  server->core_ = std::make_unique<PsCore>(server->CoreOptions(), std::move(environment));
  server->core_->memory()->answers()->OnSent([s = server.get()] { s->ReleaseLater(); });
  server->local_ = std::make_shared<LocalRequests>(server->core_->data_path());
  if (server->options_.local_servers != nullptr) {
    server->options_.local_servers->Add(server->options_.incarnation, server->options_.index,
                                        server->local_);
  }
  COHORT_RETURN_IF_ERROR(server->Listen());
  server->copy_streams_.Start(server->core_->copies(), server->served_.loops());
  return server;
}

ServedPart ParameterServer::Part() {
  return {.methods = service_.Methods(core_.get(), &clock_),
          // The chief is answered while applies keep all other threads busy.
          .control_methods = {kControlMethod},
          .health_service = "cohort.v1.ParameterServer",
          .threads = options_.threads,
          .metrics = [this] { return registry_.Text(); },
          .readiness = [this] { return core_->Readiness(); },
          .status = [this] { return core_->StatusText(); }};
}

absl::Status ParameterServer::Listen() {
  if (options_.listen.empty()) return absl::OkStatus();
  StreamServer::Options stream;
  stream.transport.http2_frame_bytes = kPushPullHttp2FrameBytes;
  stream.thread_name = "ps";
  std::vector<ServedPart> parts;
  parts.push_back(Part());
  return served_.Listen(std::move(stream), std::move(parts));
}

ParameterServer::~ParameterServer() {
  if (options_.local_servers != nullptr) options_.local_servers->Remove(options_.incarnation);
  if (local_ != nullptr) local_->End();
  copy_streams_.Stop();  // before the loops end
  if (core_ != nullptr) {
    core_->memory()->answers()->OnSent(nullptr);
    core_->DropSnapshots();  // the close of a step may wait for one
  }
  served_.Kill(Unavailable("ps:{} has ended", options_.index));
  tablet_work_.Drop();
  background_.Drop();
}

absl::Status ParameterServer::Tick() {
  KeepLedger();
  return served_.Tick(core_->chief_connected());
}

void ParameterServer::KeepLedger() {
  ServerMemory& memory = *core_->memory();
  if (const uint64_t values = core_->data_path()->ValueBytes(); values > 0)
    memory.SetValues(values);
  service_.SetMostHeld(memory.most_held(), memory.most_held_alone());
  const uint64_t held = service_.held().bytes();
  const uint64_t early = core_->data_path()->EarlyBytes();
  const uint64_t superseded = core_->superseded_bytes();
  if (memory.Note(held, early, superseded)) {
    const bool is_short = memory.short_of_memory();
    options_.log->Log(is_short ? LogLevel::kWarning : LogLevel::kInfo,
                      is_short ? "memory_short" : "memory_enough",
                      {{"used_bytes", memory.used()},
                       {"room_bytes", memory.room()},
                       {"requests", held},
                       {"unsent_answers", memory.answers()->bytes()},
                       {"early_gradients", early},
                       {"superseded", superseded}});
  }
  core_->copies()->Tick();
  if (!service_.has_parked()) return;
  if (service_.answers_wait()) memory.answers()->EndIdle(kAnswerPatience);
  service_.SendLifeSigns();
  ReleaseLater();
}

void ParameterServer::ReleaseLater() {
  if (!service_.has_parked() || release_posted_.exchange(true)) return;
  tablet_work_.Post([this] {
    release_posted_ = false;
    service_.ReleaseParked();
  });
}

std::string ParameterServer::StatusLine() const {
  return core_->chief_connected() ? "serves the job of the chief" : served_.WaitingLine();
}

std::vector<uint64_t> ParameterServer::Turns() {
  std::vector<uint64_t> turns = served_.Turns();
  turns.push_back(tablet_answered_->load());
  if (turns.back() == tablet_asked_) {
    ++tablet_asked_;
    tablet_work_.Post([answered = tablet_answered_] { ++*answered; });
  }
  return turns;
}

absl::Status ParameterServer::Shutdown(const absl::Status& why, std::chrono::milliseconds grace) {
  served_.StopServing();
  if (!core_->WaitForSnapshots(clock_.Now() + grace)) core_->DropSnapshots();
  served_.CloseStreams(why);
  const TimePoint deadline = clock_.Now() + options_.stop_wait;
  if (tablet_work_.DropUntil(deadline) && background_.DropUntil(deadline)) return absl::OkStatus();
  return DeadlineExceeded(
      "ps:{} has not stopped for {} s: making its tablets, or a snapshot, does not end; does its "
      "storage answer?",
      options_.index, ToSeconds(options_.stop_wait));
}

namespace {

// "": there is none. Error: FailedPrecondition (exit code 77) if the directory is not this user's.
absl::StatusOr<std::string> ChooseUnixSocket(const PsFlags& flags, const RoleContext& context,
                                             const std::string& runtime_dir) {
  std::string directory = flags.role.unix_socket_dir;
  if (directory == "none") return "";
  if (directory.empty()) {
    auto own = OwnSocketDirectory({.runtime_dir = runtime_dir});
    // Somebody else may have taken the name. TCP would hide it.
    if (absl::IsFailedPrecondition(own.status()) &&
        ExitCodeOf(own.status()) == ExitCode::kNoPermission) {
      return own.status();
    }
    if (!own.ok()) {
      context.log->Warning("no unix socket: the workers of this host come over TCP",
                           {{"error", own.status().ToString()}, {"flag", "--unix_socket_dir"}});
      return "";
    }
    directory = *std::move(own);
    RemoveDeadSockets(directory, std::time(nullptr));
  }
  // The chief reports the path to workers, which may run in another directory.
  std::error_code unknown;  // the current directory is unknown: the path stays as it is
  const std::filesystem::path absolute = std::filesystem::absolute(directory, unknown);
  if (!unknown) directory = absolute.string();
  return SocketPath(directory, static_cast<uint32_t>(context.task.index), context.incarnation);
}

}  // namespace

absl::StatusOr<ParameterServer::Options> MakeServerOptions(const PsFlags& flags,
                                                           const RoleContext& context,
                                                           const TaskEnvironment& environment) {
  ParameterServer::Options options{MakeServedTaskOptions(flags, context, environment)};
  COHORT_ASSIGN_OR_RETURN(options.unix_socket,
                          ChooseUnixSocket(flags, context, environment.runtime_dir));
  if (!options.unix_socket.empty()) options.listen.push_back("unix:" + options.unix_socket);
  options.apply_log = flags.apply_log;
  options.copy_bytes_per_second = flags.copy_bytes_per_second;
  return options;
}

}  // namespace cohort
