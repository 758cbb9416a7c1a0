#include "chief/job/job_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "chief/job/first_weights.h"
#include "chief/job/ring_choice.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/data/stream_files.h"
#include "common/graph/segments.h"
#include "common/model/batch_text.h"
#include "common/model/callbacks/averages.h"
#include "common/model/device_check.h"
#include "common/model/strategies.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/shard_plan.h"
#include "common/rpc/admin/admin_server.h"
#include "common/rpc/admin/control_socket.h"
#include "common/run_report/run_page.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr double kTaskTimeoutSeconds = 60;
constexpr double kJoinSeconds = 15;
constexpr double kStreamWaitSeconds = 0.05;

// By `checkpoint.keep_best`. EarlyStopping restores the epoch that it calls the best.
BestRule RuleOfJob(const v1::JobSpec& job) {
  BestRule rule{.metric = job.checkpoint().keep_best(),
                .highest = job.checkpoint().mode() == "max"};
  for (const v1::ClassConfig& callback : job.fit().callbacks()) {
    const Config config(callback);
    if (callback.config().contains("restore_best_weights") && config.Bool("restore_best_weights")) {
      rule.min_delta = std::abs(config.Float("min_delta"));
      rule.first_epoch = static_cast<uint64_t>(config.Int("start_from_epoch")) + 1;
      break;
    }
  }
  return rule;
}

// The first place that a checkpoint of the directory may need.
absl::StatusOr<uint64_t> OldestPosition(const std::string& directory) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(directory));
  std::optional<uint64_t> oldest;
  for (const CheckpointEntry& entry : entries) {
    COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(entry.manifest));
    oldest = std::min(oldest.value_or(PositionOf(manifest)), PositionOf(manifest));
  }
  return oldest.value_or(0);
}

}  // namespace

std::string ShardPlan(const ClusterCoordinator& cluster) { return ShardPlanText(cluster.layout()); }

JobRunner::JobRunner(JobRunnerOptions options)
    : options_(std::move(options)),
      cluster_(options_.cluster),
      fresh_(options_.fresh),
      console_(options_.progress),
      metrics_log_(&console_, options_.log),
      checkpoint_news_(&console_),
      commands_({.spec = &options_.job.spec,
                 .tasks = &cluster_,
                 .console = &console_,
                 .cluster = [this] { return coordinator(); },
                 .stream = [this] { return stream(); },
                 .interrupt = [this] { Interrupt(); }}) {}

JobRunner::~JobRunner() = default;

std::shared_ptr<ClusterCoordinator> JobRunner::coordinator() const {
  MutexLock lock(&mu_);
  return coordinator_;
}

absl::StatusOr<JobReport> JobRunner::Run() {
  if (absl::Status waited = AwaitFirstFile(); !waited.ok()) return AfterStop(std::move(waited));
  console_.SetActivity("reading its data");
  COHORT_ASSIGN_OR_RETURN(JobPlan plan, JobPlan::Make(options_.job, options_.data));
  plan_ = std::make_unique<JobPlan>(std::move(plan));
  controls_ = std::make_unique<JobControls>(plan_.get(), &console_);
  commands_.OnPlan(plan_.get(), controls_.get());
  for (const std::string& warning : plan_->data_warnings()) console_.Print(warning);
  std::set<int> workers;
  for (const auto& [index, address] : cluster_.tasks(Role::kWorker)) workers.insert(index);
  COHORT_RETURN_IF_ERROR(CheckDeviceWorkers(plan_->spec(), plan_->job().lines, workers));
  COHORT_RETURN_IF_ERROR(OpenReplicas());
  absl::StatusOr<JobReport> outcome = AfterStop(RunPlan());
  while (ChangeReplicas(outcome.status())) outcome = AfterStop(RunPlan());
  ReportOutcome(outcome);
  EndCluster();
  return outcome;
}

absl::Status JobRunner::AwaitFirstFile() {
  const v1::DataSpec& data = options_.job.spec.data();
  if (data.visitation() != v1::STREAM) return absl::OkStatus();
  const std::string& end = data.stream().end();
  const std::string wait = "waiting for files in " + StreamPlace(data.train());
  while (!interrupted_) {
    std::error_code ignored;
    const bool ends = !end.empty() && std::filesystem::exists(options_.data.PathOf(end), ignored);
    COHORT_ASSIGN_OR_RETURN(const auto files,
                            ListStreamFiles(data.train(), data.stream(), options_.data));
    if (!files.empty()) return absl::OkStatus();
    if (ends) {
      return WithExitCode(
          NotFound(
              "the stream {} has ended, because {} exists, and it has no file: nothing tells "
              "the columns of the data. Add a file, which may be one that the job has read, or "
              "remove {}",
              StreamPlace(data.train()), options_.data.PathOf(end), options_.data.PathOf(end)),
          ExitCode::kNoInput);
    }
    if (console_.activity() != wait) {
      console_.SetActivity(wait);
      console_.Print(wait);
      const std::string directory = CheckpointDirectory();
      const std::string socket = JoinPath(directory, kControlSocket);
      if (!directory.empty() && !ControlSocket::IsServed(socket)) {
        COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(MakeDirectories(directory)));
        StartControl();
      }
    }
    const double poll = std::min(data.stream().poll_s(), 0.2);  // an interrupt is seen soon
    std::this_thread::sleep_for(std::chrono::duration<double>(poll));
  }
  return Cancelled("interrupted while {}", wait);
}

absl::Status JobRunner::OpenStream() {
  const v1::DataSpec& data = plan_->spec().data();
  if (data.visitation() != v1::STREAM) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(
      auto list, StreamLog::Open({.directory = directory_->path(),
                                  .batch_size = data.batch_size(),
                                  .may_write = [this] { return directory_->lock()->Check(); }}));
  plan_->AddStreamFiles(list->files(), list->next_place());
  StreamWatch::Options options{.train = data.train(),
                               .stream = data.stream(),
                               .data = options_.data,
                               .batch_size = data.batch_size(),
                               .oldest_needed = [this]() -> absl::StatusOr<uint64_t> {
                                 return OldestPosition(directory_->path());
                               },
                               .clock = options_.clock,
                               .log = options_.log};
  COHORT_ASSIGN_OR_RETURN(const auto newest, directory_->NewestManifest());
  if (newest.has_value()) options.checkpointed = PositionOf(*newest);
  auto watch = std::make_shared<StreamWatch>(std::move(options), std::move(list));
  MutexLock lock(&mu_);
  stream_ = std::move(watch);
  return absl::OkStatus();
}

absl::Status JobRunner::UpdateStream() {
  std::shared_ptr<StreamWatch> stream;
  {
    MutexLock lock(&mu_);
    stream = stream_;
  }
  if (interrupted_) return Cancelled("interrupted");
  const CoordinatorState state = coordinator()->state();
  const bool idle =
      state.queued + state.in_flight == 0 && state.next_place >= plan_->schedule().KnownEnd();
  COHORT_ASSIGN_OR_RETURN(const StreamWatch::News news,
                          stream->Take(state.steps, idle ? kStreamWaitSeconds : 0));
  plan_->AddStreamFiles(news.files, 0);
  plan_->DropStreamFilesBefore(news.oldest_needed);
  if (news.ended) plan_->EndStream();
  if (news.ended && plan_->schedule().stream->end() == 0) {
    return InvalidArgument("the stream {} has ended without a record",
                           StreamPlace(plan_->spec().data().train()));
  }
  return absl::OkStatus();
}

absl::Status JobRunner::CheckStreamList(const CoordinatorState& state) const {
  const auto& stream = plan_->schedule().stream;
  if (stream == nullptr || state.next_place <= stream->end()) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition("{} has trained {} steps, and the list of its stream's files, {}, has {}: "
                         "put the list back, or give another checkpoint directory",
                         directory_->path(), state.next_place, directory_->PathOf("stream"),
                         stream->end()),
      ExitCode::kConfig);
}

void JobRunner::EndCluster() {
  std::shared_ptr<StreamWatch> stream;  // it uses the directory
  {
    MutexLock lock(&mu_);
    stream = std::exchange(stream_, nullptr);
  }
  stream.reset();
  EndControl();
  if (const auto last = coordinator()) last->Close();  // the status page can still see it
  {
    MutexLock lock(&mu_);
    coordinator_.reset();
  }
  directory_.reset();
}

absl::Status JobRunner::OpenReplicas() {
  if (!plan_->spec().strategy().elastic()) return absl::OkStatus();
  ReplicaWatch::Options watch{.job = plan_->identity(),
                              .chief_incarnation = options_.chief_incarnation,
                              .security = options_.security};
  COHORT_ASSIGN_OR_RETURN(
      replicas_, ElasticReplicas::Start(
                     {.all = cluster_, .clock = options_.clock, .log = options_.log}, watch));
  return absl::OkStatus();
}

// A supervisor passes --finished_ok to a chief that it restarts. A chief that a user starts waits
// for all replicas again.
void JobRunner::RecallReplicas() {
  if (replicas_ == nullptr || renumbered()) return;
  if (!options_.finished_ok) return replicas_->Note(directory_->path());
  const std::string line = replicas_->Recall(directory_->path());
  if (line.empty()) return;
  console_.Print(line);
  cluster_ = replicas_->cluster();
}

bool JobRunner::ChangeReplicas(const absl::Status& status) {
  const bool in_start = std::exchange(in_start_, false);
  if (replicas_ == nullptr || directory_ == nullptr || status.ok() || interrupted_) return false;
  const auto line = replicas_->Change({.status = status, .in_start = in_start});
  if (!line.has_value()) return false;
  replicas_->Note(directory_->path());
  console_.Print(*line);
  EndCluster();
  cluster_ = replicas_->cluster();
  fresh_ = false;
  return true;
}

void JobRunner::WriteCallbackFile(const CallbackFile& file) {
  const std::string directory = std::filesystem::path(file.path).parent_path().string();
  absl::Status written = directory.empty() ? absl::OkStatus() : MakeDirectories(directory);
  if (written.ok()) written = WriteFileAtomically(file.path, file.text);
  if (written.ok()) return;
  options_.log->Failure(LogLevel::kWarning, "callback_file_not_written", written);
  console_.Print(fmt::format("warning: {} could not be written: {}", file.path,
                             std::string(written.message())));
}

void JobRunner::ReportOutcome(const absl::StatusOr<JobReport>& outcome) {
  if (console_.BeginEnd() && options_.on_outcome) options_.on_outcome(outcome);
}

absl::StatusOr<JobReport> JobRunner::RunPlan() {
  auto directory = TakeDirectory();
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(directory.status()));
  directory_ = *std::move(directory);
  RecallReplicas();
  COHORT_RETURN_IF_ERROR(controls_->Read({.directory = directory_->path(),
                                          .fresh = fresh_,
                                          .restarted = options_.finished_ok || renumbered()}));
  FirstWeights weights(plan_.get(), directory_.get(), &console_, options_.log);
  const bool has_weights = plan_->spec().has_initial_weights();
  if (has_weights && fresh_) COHORT_RETURN_IF_ERROR(weights.Check());
  console_.SetActivity("reading what " + directory_->path() + " holds");
  const auto finished = directory_->Prepare();
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(finished.status()));
  has_directory_ = true;
  if (!finished->has_value()) {
    if (directory_->new_training().has_value()) {
      COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(
          weights.TakeFromFormerJob(*directory_->new_training(), controls_.get())));
    }
    COHORT_RETURN_IF_ERROR(controls_->Keep());
    COHORT_RETURN_IF_ERROR(ChooseClosuresPerStep());
    if (directory_->continuation().has_value()) {
      Continue(*directory_->continuation());
    } else {
      COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(weights.Write()));
    }
    return RunInDirectory();
  }
  const v1::Manifest& manifest = **finished;
  JobReport report;
  report.found_finished = manifest.step();
  report.checkpoint = directory_->PathOf(IdOf(manifest).ToString());
  if (manifest.has_best()) {
    report.best_checkpoint = directory_->PathOf(manifest.best().checkpoint());
    report.best_text = BestText(manifest.best());
  }
  WriteMissingReport(&report);
  return report;
}

// The default is the number of workers at the first start. It stays when the job continues with
// other workers, so that the steps have the same records.
absl::Status JobRunner::ChooseClosuresPerStep() {
  const v1::StrategySpec& strategy = plan_->spec().strategy();
  if (strategy.mode() == "async") {
    console_.Print(BatchText(plan_->spec(), 0));
    return absl::OkStatus();
  }
  uint32_t closures = strategy.closures_per_step();
  if (closures == 0 && directory_->continuation().has_value()) {
    closures = directory_->continuation()->epochs.closures_per_step();
  }
  if (closures == 0) {
    // Also if a replica is lost before the first checkpoint.
    closures = static_cast<uint32_t>(options_.cluster.count(Role::kWorker));
  }
  if (closures == 0) {
    return WithExitCode(
        FailedPrecondition("TF_CONFIG names no worker: give `strategy.closures_per_step` a number, "
                           "for the most workers that you expect to join"),
        ExitCode::kConfig);
  }
  plan_->SetClosuresPerStep(closures);
  console_.Print(BatchText(plan_->spec(), closures));
  if (!UsesRing()) return absl::OkStatus();
  const size_t replicas = cluster_.tasks(Role::kWorker).size();
  console_.Print(
      closures < replicas
          ? fmt::format("a ring of {} replicas needs as many closures per step, and a step has {}: "
                        "gradients go directly to the owners of the variables",
                        replicas, closures)
          : fmt::format("{} replicas sum dense gradients in a ring", replicas));
  return absl::OkStatus();
}

void JobRunner::Continue(const Continuation& continuation) {
  plan_->SetEpochPlan(continuation.epochs);
  for (const KeyChange& change : continuation.changes) {
    LogChange(change, plan_->job().lines, options_.log);
    if (change.key != "strategy.mode") continue;
    console_.Print(fmt::format("the mode is {} from here on; up to the checkpoint it was {}",
                               change.now, change.then));
  }
}

absl::StatusOr<std::unique_ptr<JobDirectory>> JobRunner::TakeDirectory() {
  JobDirectory::Options options;
  options.path = CheckpointDirectory();
  options.fresh = fresh_;
  options.finished_ok = options_.finished_ok;
  options.launch = options_.launch;
  options.takeover = options_.takeover;
  if (options_.standby) {
    options.standby = StandbyOptions{
        .interrupted = &interrupted_, .waits = [this](const std::string& holder) {
          console_.SetActivity("standing by: " + holder + " has the checkpoint directory");
          options_.log->Info("standing_by", {{"holder", holder}});
        }};
  }
  options.chief_incarnation = options_.chief_incarnation;
  options.servers = static_cast<uint32_t>(cluster_.tasks(Role::kPs).size());
  console_.SetActivity("taking the checkpoint directory " + options.path);
  return JobDirectory::Take(std::move(options), plan_.get());
}

std::string JobRunner::CheckpointDirectory() const {
  return options_.checkpoint_dir.empty() ? options_.job.spec.checkpoint().directory()
                                         : options_.checkpoint_dir;
}

std::string JobRunner::LogDirectory() const {
  return options_.log_dir.empty() ? plan_->spec().report().log_dir() : options_.log_dir;
}

absl::Status JobRunner::OpenMetricsLog() {
  const std::string log_dir = LogDirectory();
  if (log_dir.empty()) return absl::OkStatus();
  // That of an earlier end would be taken for this job's.
  RemoveFile(JoinPath(log_dir, kSummaryName)).IgnoreError();
  // An evaluator may have opened the file.
  std::error_code ignored;
  if (fresh_) std::filesystem::resize_file(JoinPath(log_dir, kMetricsName), 0, ignored);
  return TempFailIfDiskFull(metrics_log_.Open(log_dir, options_.clock));
}

void JobRunner::OpenRunEvents() {
  const std::string log_dir = LogDirectory();
  if (log_dir.empty()) return;
  const std::optional<TensorBoardSettings> settings = TensorBoardOf(plan_->spec());
  if (!settings.has_value()) return;
  events_ = std::make_unique<RunEvents>(log_dir, options_.clock, options_.log);
  if (!directory_->continuation().has_value()) {
    events_->Begin(plan_->keys());
    if (settings->graph) events_->WriteGraph(plan_->model().summary);
  }
  if (settings->histograms_every == 0 && settings->embeddings_every == 0) return;
  WeightRecorder::Options options{.log_dir = log_dir,
                                  .histograms_every = settings->histograms_every,
                                  .embeddings_every = settings->embeddings_every,
                                  .embeddings = {},
                                  .metadata = settings->metadata,
                                  .clock = options_.clock,
                                  .log = options_.log};
  for (const v1::VariableSpec& variable : plan_->model().variables) {
    if (variable.name().ends_with("/embeddings")) options.embeddings.push_back(variable.name());
  }
  weights_ = std::make_unique<WeightRecorder>(std::move(options));
}

absl::StatusOr<JobReport> JobRunner::RunInDirectory() {
  COHORT_RETURN_IF_ERROR(OpenMetricsLog());
  OpenRunEvents();
  StartControl();
  if (BestRule rule = RuleOfJob(plan_->spec()); !rule.metric.empty()) {
    rule.comparable = [this](const auto& other) { return plan_->HasValidationDataOf(other); };
    best_ =
        std::make_unique<BestTracker>(std::move(rule), directory_.get(), &console_, options_.log);
  }
  callbacks_ = EpochCallbacks::Of(plan_->spec());
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(OpenStream()));
  console_.SetActivity("starting the cluster");
  JobWalk::Options walk_options = MakeWalkOptions();
  in_start_ = true;
  COHORT_ASSIGN_OR_RETURN(ClusterCoordinator* const cluster, StartCluster(&walk_options));
  in_start_ = false;
  if (replicas_ != nullptr) replicas_->OnStarted();
  COHORT_RETURN_IF_ERROR(CheckStreamList(cluster->state()));
  if (plan_->schedule().stream != nullptr) {
    walk_options.epochs.update = [this] { return UpdateStream(); };
    walk_options.stream_place = StreamPlace(plan_->spec().data().train());
  }
  const auto& from = directory_->continuation();
  COHORT_RETURN_IF_ERROR(
      controls_->ApplyEdits(from.has_value() ? from->changes : std::vector<KeyChange>(), cluster));
  const ModeSettings mode = cluster->state().mode;
  if (mode != static_cast<const ModeSettings&>(MakeCoordinatorOptions())) {
    console_.Print(fmt::format(
        "the mode is {}: `cohort ctl set-mode` has changed that of the job file", TextOf(mode)));
  }
  JobWalk::Environment environment{
      .cluster = cluster,
      .catalog = directory_.get(),
      .schedule = &plan_->schedule(),
      .clock = options_.clock,
      .log = options_.log,
      .console = &console_,
      .metrics = &metrics_log_,
      .best = best_.get(),
      .callbacks = callbacks_.get(),
      .update_epochs = [this](bool ends) { controls_->UpdateEpochs(ends); },
      .write_file = [this](const CallbackFile& file) { WriteCallbackFile(file); }};
  if (replicas_ != nullptr) {
    environment.gives_up = [this](int server, bool is_back) {
      return replicas_->GivesUp(server, is_back);
    };
    environment.replicas_change = [this] { return replicas_->IsDue(); };
  }
  JobWalk walk(environment, walk_options);
  if (absl::Status ran = walk.Run(); !ran.ok()) {
    // No other chief would do better: its page tells why.
    if (absl::IsInvalidArgument(ran)) MakeReport(*cluster, walk, ran).IgnoreError();
    return ran;
  }
  if (weights_ != nullptr) weights_->Finish();
  if (events_ != nullptr) events_->End();
  COHORT_ASSIGN_OR_RETURN(JobReport report, MakeReport(*cluster, walk, absl::OkStatus()));
  const absl::Status ended = cluster->Shutdown("the job is finished", /*job_finished=*/true);
  // An interrupt at this point also ends the tasks. The job is still finished.
  if (!ended.ok() && !absl::IsCancelled(ended)) return ended;
  return report;
}

// `auto` keeps the promise that weights do not depend on the number of replicas, unless the job
// does without it.
bool JobRunner::UsesRing() const {
  const v1::StrategySpec& strategy = plan_->spec().strategy();
  if (FindStrategy(strategy.name())->calls != OwnerCalls::kReplicas) return false;
  if (strategy.communication() != kAutoCommunication || strategy.deterministic() != "false" ||
      NamesDevices(plan_->model().train)) {
    return strategy.communication() == kRingCommunication;
  }
  const Program& program = plan_->model().train;
  uint64_t bytes = 0;
  for (const Push& push : program.pushes) {
    if (push.kind != PushKind::kGradient || push.keys != kNoValue) continue;
    const ValueType& type = program.type(push.value);
    bytes += static_cast<uint64_t>(CapacityElements(type)) * SizeOf(type.dtype);
  }
  return RingSavesBytes(bytes, plan_->closures_per_step(),
                        static_cast<uint64_t>(cluster_.count(Role::kWorker)));
}

CoordinatorOptions JobRunner::MakeCoordinatorOptions() {
  const v1::JobSpec& spec = plan_->spec();
  const v1::StrategySpec& strategy = spec.strategy();
  CoordinatorOptions options;
  options.cluster = cluster_;
  options.job = plan_->identity();
  options.identity = plan_->identity_keys();
  options.closures_hash = plan_->closures_hash();
  options.checkpoint_dir = directory_->path();
  if (spec.has_initial_weights() || directory_->former().has_value()) {
    options.initial_values = directory_->PathOf(kInitialValuesName);
  }
  options.chief_incarnation = options_.chief_incarnation;
  options.takeover = directory_->took_over();
  options.lock = directory_->lock();
  options.join_bind = options_.join_bind;
  if (const auto& from = directory_->continuation(); from.has_value()) {
    options.former_layout = from->layout;
  }
  options.security = options_.security;
  options.renumbered = renumbered();
  options.seed = spec.seed();
  options.mode = ModeNamed(strategy.mode()).value_or(ConsistencyMode::kAsync);
  options.closures_per_step = plan_->closures_per_step();
  if (const auto& from = directory_->continuation(); from.has_value()) {
    for (const char* key : {"mode", "closures_per_step", "backup_work", "replicas_to_aggregate",
                            "staleness", "pull_ahead", "hot_rows"}) {
      const std::string name = fmt::format("strategy.{}", key);
      options.mode_is_new |= std::ranges::any_of(from->changes, [&](const KeyChange& c) {
        return c.key == name || c.key.starts_with(name + ".");
      });
    }
  }
  options.backup_work = BackupWorkNamed(strategy.backup_work()).value_or(BackupWork::kNone);
  options.replicas_to_aggregate = strategy.replicas_to_aggregate();
  options.staleness = strategy.staleness();
  if (options.mode == ConsistencyMode::kSync) {
    options.deterministic = strategy.deterministic() == "true"    ? Determinism::kRequired
                            : strategy.deterministic() == "false" ? Determinism::kOff
                                                                  : Determinism::kWatched;
    if (const auto& from = directory_->continuation(); from.has_value()) {
      options.fingerprint = from->fingerprint;
    }
  }
  options.ring = UsesRing();
  options.hashed_rows = plan_->spec().strategy().partitioner().rows() == "hash";
  options.copies = strategy.replicas() == 2;
  options.rebalance = strategy.rebalance() == "auto";
  options.loss_scaling = LossScalingOf(spec);
  options.pull_ahead = strategy.pull_ahead();
  options.hot_rows = strategy.has_hot_rows();
  options.closures_in_flight = strategy.closures_in_flight();
  options.max_attempts = strategy.max_attempts();
  options.table_memory_bytes = strategy.table_memory_bytes();
  options.table_directory = strategy.table_directory();
  options.task_timeout_s = options_.task_timeout_s > 0     ? options_.task_timeout_s
                           : strategy.task_timeout_s() > 0 ? strategy.task_timeout_s()
                                                           : kTaskTimeoutSeconds;
  // The default of the job file never ends a job; an explicit timeout does.
  if (plan_->job().lines.keys.contains("strategy.closure_timeout_s")) {
    options.closure_timeout_s = strategy.closure_timeout_s();
    options.closure_timeout_ends_job = true;
  }
  // An elastic job continues without a lost replica, so it waits for a shorter time.
  if (strategy.elastic()) options.server_grace_s = 5;
  // Those that join have answered a moment ago.
  if (replicas_ != nullptr && replicas_->has_joined()) options.start_timeout_s = kJoinSeconds;
  options.ends_with_averages = UsesOfAveragesIn(spec).last_checkpoint;
  options.cut_deadline_s = spec.checkpoint().cut_deadline_s();
  options.max_to_keep = spec.checkpoint().max_to_keep();
  options.full_every = spec.checkpoint().full_every();
  options.interrupt = &interrupted_;
  options.clock = options_.clock;
  options.log = options_.log;
  options.on_wait = [this](const std::string& what) { console_.PrintWait(what); };
  // Another start may follow, on other replicas.
  if (replicas_ == nullptr || !replicas_->repeats_start()) {
    options.on_failed_start = [this](const absl::Status& status) { ReportOutcome(status); };
  }
  options.complete_manifest = [this](v1::Manifest* manifest) { CompleteManifest(manifest); };
  options.check_manifest = [this](const v1::Manifest& manifest) {
    return directory_->CheckMayRestore(manifest);
  };
  options.on_cut_done = [this](const absl::Status& status) {
    checkpoint_news_.Note(directory_->path(), status);
  };
  options.on_committed = [this](const v1::Manifest& manifest) {
    if (best_ != nullptr) best_->keeper()->Committed(manifest);
    NoteCheckpoint(manifest);
    // A checkpoint inside an epoch has metrics or closures of it.
    const bool at_end =
        manifest.chief().metrics_size() == 0 && manifest.chief().pending_size() == 0;
    if (weights_ != nullptr && at_end) {
      weights_->Committed(directory_->PathOf(IdOf(manifest).ToString()), manifest.epoch(),
                          manifest.step());
    }
  };
  return options;
}

// Called on another thread.
void JobRunner::NoteCheckpoint(const v1::Manifest& manifest) {
  MutexLock lock(&mu_);
  if (stream_ != nullptr) stream_->SetCheckpointed(PositionOf(manifest));
}

void JobRunner::CompleteManifest(v1::Manifest* manifest) const {
  *manifest->mutable_job_spec() = plan_->spec();
  manifest->set_job_yaml(plan_->job().yaml);
  *manifest->mutable_epochs() = plan_->epoch_plan();
  manifest->set_servers(static_cast<uint32_t>(cluster_.tasks(Role::kPs).size()));
  if (best_ != nullptr) best_->keeper()->Complete(manifest);
  if (callbacks_ != nullptr) callbacks_->Complete(manifest);
  *manifest->mutable_train_data() = plan_->train_data();
  if (plan_->schedule().validation_records > 0) {
    *manifest->mutable_validation_data() = plan_->validation_data();
  }
}

JobWalk::Options JobRunner::MakeWalkOptions() const {
  const v1::JobSpec& spec = plan_->spec();
  JobWalk::Options options;
  options.job_name = spec.name();
  options.checkpoints = {.every_steps = spec.checkpoint().every_steps(),
                         .every_seconds = spec.checkpoint().every_seconds(),
                         .every_epochs = spec.checkpoint().every_epochs()};
  options.progress = {.record_every_steps = spec.report().every_steps(),
                      .learning_rate = plan_->LearningRate()};
  options.learning_rate = plan_->ConstantLearningRate();
  const auto& callbacks = spec.fit().callbacks();
  if (std::any_of(callbacks.begin(), callbacks.end(), [](const v1::ClassConfig& callback) {
        const auto known = Callbacks().Find(callback.class_name());
        return known.ok() && (*known)->sets_learning_rate;
      })) {
    options.progress.first_learning_rate = options.learning_rate;
  }
  const UsesOfAverages averages = UsesOfAveragesIn(spec);
  options.ends_with_other_weights =
      averages.last_checkpoint && !averages.evaluation && KeepAverages(plan_->model().optimizers);
  return options;
}

absl::StatusOr<ClusterCoordinator*> JobRunner::StartCluster(JobWalk::Options* walk) {
  const v1::JobSpec& spec = plan_->spec();
  const BuiltModel& model = plan_->model();
  COHORT_ASSIGN_OR_RETURN(auto coordinator, ClusterCoordinator::Start(MakeCoordinatorOptions()));
  ClusterCoordinator* const cluster = coordinator.get();
  {
    MutexLock lock(&mu_);
    coordinator_ = std::move(coordinator);
  }
  COHORT_ASSIGN_OR_RETURN(walk->epochs.step, cluster->RegisterStep(model.train));
  COHORT_ASSIGN_OR_RETURN(walk->validation.function, cluster->RegisterStep(model.eval));
  DatasetOptions data{.name = "train",
                      .batch_size = spec.data().batch_size(),
                      .features = model.features,
                      .exactly_once = plan_->schedule().exactly_once,
                      .stream = plan_->schedule().stream != nullptr,
                      .seed = spec.seed(),
                      .data = &plan_->train_data()};
  if (data.stream) data.data = nullptr;  // leases name the files
  COHORT_ASSIGN_OR_RETURN(walk->epochs.dataset,
                          cluster->CreatePerWorkerDataset(spec.data().train(), data));
  if (plan_->schedule().validation_records > 0) {
    data.name = "validation";
    data.features = model.eval_features;
    data.exactly_once = true;
    data.stream = false;
    data.data = &plan_->validation_data();
    data.training = false;
    COHORT_ASSIGN_OR_RETURN(walk->validation.dataset,
                            cluster->CreatePerWorkerDataset(spec.data().validation(), data));
  }
  console_.SetActivity("restoring the newest checkpoint in " + directory_->path());
  COHORT_RETURN_IF_ERROR(cluster->CreateVariables(model.variables, model.optimizers,
                                                  spec.strategy().partitioner(),
                                                  spec.strategy().placement()));
  started_ = true;
  controls_->Attach(cluster);
  return cluster;
}

absl::StatusOr<JobReport> JobRunner::MakeReport(const ClusterCoordinator& cluster,
                                                const JobWalk& walk,
                                                const absl::Status& ran) const {
  JobReport report;
  report.failed = std::string(ran.message());
  report.state = cluster.state();
  report.epochs = report.state.epoch;
  report.steps = report.state.steps;
  const JobSchedule& schedule = plan_->schedule();
  report.is_stream = schedule.stream != nullptr;
  if (schedule.exactly_once) report.examples = report.epochs * schedule.train_records;
  report.training = walk.training_metrics();
  report.validation = walk.validation_metrics();
  report.trained = walk.figures();
  report.metrics_log = metrics_log_.summary();
  report.steps_per_closure = schedule.steps_per_closure;
  report.shard_plan = ShardPlan(cluster);
  const bool launch_known = !walk.continued() && options_.launched != TimePoint();
  if (launch_known && report.state.first_closure.has_value()) {
    report.first_step_seconds = ToSeconds(*report.state.first_closure - options_.launched);
  }
  if (const auto best = best_ != nullptr ? best_->best() : std::nullopt; best.has_value()) {
    report.best_checkpoint = directory_->PathOf(best->checkpoint());
    report.best_text = BestText(*best);
  }
  report.checkpoint = cluster.newest_checkpoint();
  COHORT_ASSIGN_OR_RETURN(const v1::Manifest manifest, directory_->Read(report.checkpoint));
  report.ReadManifest(manifest);
  WriteReport(&report);
  return report;
}

void JobRunner::WriteReport(JobReport* report) const {
  const std::string& directory = report->metrics_log.directory;
  if (directory.empty()) return;
  report->page = JoinPath(directory, kPageName);
  WriteSummary(report->Summary(), report);
}

// The chief of the last step may have died between its last commit and its report.
void JobRunner::WriteMissingReport(JobReport* report) const {
  const std::string directory = LogDirectory();
  if (directory.empty()) return;
  std::error_code ignored;
  const bool logged = std::filesystem::exists(JoinPath(directory, kMetricsName), ignored);
  if (!logged || std::filesystem::exists(JoinPath(directory, kSummaryName), ignored)) return;
  report->page = JoinPath(directory, kPageName);
  RunSummary summary;
  summary.outcome = "finished";
  summary.steps = report->found_finished.value_or(0);
  summary.facts = {{"checkpoint", report->checkpoint}};
  if (!report->best_checkpoint.empty()) {
    summary.facts.emplace_back("best",
                               fmt::format("{}: {}", report->best_checkpoint, report->best_text));
  }
  summary.text = report->Text();
  WriteSummary(std::move(summary), report);
}

void JobRunner::WriteSummary(RunSummary summary, JobReport* report) const {
  const std::string directory = LogDirectory();
  summary.job = plan_->spec().name();
  summary.unix_seconds = static_cast<double>(options_.clock->UnixMicros()) / 1e6;
  summary.lower_is_better = MetricsToMinimize(plan_->spec());
  summary.environment = EnvironmentOfProcess();
  summary.environment.emplace_back("workers",
                                   fmt::format("{}", cluster_.tasks(Role::kWorker).size()));
  summary.environment.emplace_back("parameter servers",
                                   fmt::format("{}", cluster_.tasks(Role::kPs).size()));
  summary.keys = KeysOfSpec(plan_->spec());
  summary.job_file = plan_->job().yaml;
  absl::Status written = WriteFileAtomically(JoinPath(directory, kSummaryName), summary.ToJson());
  if (written.ok()) written = WriteRunPage(directory);
  if (written.ok()) return;
  report->page.clear();
  options_.log->Failure(LogLevel::kWarning, "report_not_written", written);
}

// ------------------------------------------------------------------ cohort ctl

void JobRunner::StartControl() {
  AdminServer::Options options;
  options.control_socket = JoinPath(CheckpointDirectory(), kControlSocket);
  options.control = [this](const std::string& command, const std::string& request) {
    return AnswerJobRequest(command, request, &commands_, options_.log);
  };
  options.request_timeout = std::chrono::seconds(5);
  auto server = AdminServer::Start(std::move(options));
  if (!server.ok()) {
    return options_.log->Failure(LogLevel::kWarning, "control_unavailable", server.status());
  }
  control_ = *std::move(server);
}

void JobRunner::EndControl() {
  if (const auto last = coordinator()) last->Interrupt();
  control_.reset();
}

absl::StatusOr<JobReport> JobRunner::AfterStop(absl::StatusOr<JobReport> outcome) const {
  const std::optional<std::string> checkpoint = commands_.stopped_at();
  if (!checkpoint.has_value() || !absl::IsCancelled(outcome.status())) return outcome;
  if (directory_ != nullptr) directory_->lock()->NoteStopped();
  return WithExitCode(
      checkpoint->empty()
          ? Cancelled("the job was stopped before it began to train")
          : Cancelled("the job was stopped; {} is its checkpoint, and a later start continues from "
                      "it",
                      *checkpoint),
      ExitCode::kStopped);
}

std::optional<StreamFigures> JobRunner::stream() const {
  MutexLock lock(&mu_);
  if (stream_ == nullptr) return std::nullopt;
  return stream_->figures();
}

}  // namespace cohort
