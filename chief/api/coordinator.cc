#include "chief/api/coordinator.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "chief/api/chief_checkpoints.h"
#include "chief/api/closure_results.h"
#include "chief/api/control_streams.h"
#include "chief/api/job_definition.h"
#include "chief/api/join_service.h"
#include "chief/api/journal_thread.h"
#include "chief/api/locked_core.h"
#include "chief/api/owned_directory.h"
#include "chief/api/restoration.h"
#include "chief/api/start_options.h"
#include "chief/core/attended_clock.h"
#include "chief/core/joined_tasks.h"
#include "common/base/denormals.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/cluster/address.h"
#include "common/plugin/load_plugins.h"

namespace cohort {
namespace {

// How long a task that joins waits for the journal, and then asks again.
constexpr double kJoinSeconds = 5;

// The core of a running chief, its effects, and the client's calls. The walk:
//
//   1. Begin takes the checkpoint directory, and starts threads and streams. The core probes and
//      adopts the tasks.
//   2. CreateVariables (definition, restoration) sets the layout, and resumes or restores.
//   3. Schedule, Join and so on; Checkpoint (checkpoints); Restore (restoration) after a lost ps.
//   4. Shutdown calls the core's Stop. The tasks close their streams.
//   5. Close makes finished closures durable, and ends threads and streams.
//
// Every input of the core holds the core's one lock, and so does every effect.
class CoordinatorImpl final : public ClusterCoordinator, private CoreEffects {
 public:
  explicit CoordinatorImpl(const CoordinatorOptions& options);
  ~CoordinatorImpl() override { Close(); }

  absl::Status Begin();
  void Close() override;

  using ClusterCoordinator::CreateVariables;
  using ClusterCoordinator::Schedule;
  absl::Status CreateVariables(std::span<const v1::VariableSpec> variables,
                               std::span<const v1::OptimizerSpec> optimizers,
                               const v1::PartitionerSpec& partitioner,
                               std::string_view placement) override;
  absl::StatusOr<StepFunction> RegisterStep(const Program& program) override {
    return definition_.RegisterStep(program);
  }
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const v1::DatasetSpec& spec,
                                                          const DatasetOptions& options) override {
    return definition_.CreatePerWorkerDataset(spec, options);
  }
  v1::Layout layout() const override { return definition_.layout(); }

  absl::StatusOr<RemoteValue> Schedule(ClosureSpec spec) override;
  absl::Status Join() override { return JoinUntil(CallWaits::kForever).status(); }
  absl::StatusOr<bool> JoinFor(double seconds) override {
    return JoinUntil(std::chrono::steady_clock::now() + FromSeconds(seconds));
  }
  absl::StatusOr<bool> Done() override;
  std::vector<UnfinishedClosure> Unfinished() const override;
  absl::Status SetLearningRate(double rate, bool by_user) override;
  void SetPaused(bool paused) override;
  absl::Status EndEpoch(const v1::EpochRecord* record) override;
  std::vector<v1::EpochRecord> History() const override;
  absl::Status SetMode(const ModeSettings& settings) override;
  absl::Status MoveTablets(const TabletMove& move) override;
  absl::Status FenceWorker(int worker, bool fenced, bool again) override {
    MutexLock lock(core_.mu());
    return core_.get()->FenceWorker(worker, fenced, again);
  }

  absl::Status Checkpoint(bool finished) override { return checkpoints_->Take(finished).status(); }
  absl::Status StartCheckpoint() override { return checkpoints_->StartOne(); }
  absl::StatusOr<std::string> CheckpointNow() override {
    return checkpoints_->TakeUnlessFinished();
  }
  std::string newest_checkpoint() const override { return checkpoints_->newest(); }
  absl::StatusOr<std::map<std::string, Tensor>> ReadVariables() override;
  absl::Status AwaitServers() override { return restoration_->AwaitServers(); }
  absl::Status Restore() override { return restoration_->Restore(); }
  absl::Status RestoreFrom(const std::string& checkpoint) override {
    return restoration_->Restore(checkpoint);
  }

  CoordinatorState state() const override;
  void Flush() override;
  void Interrupt() override { core_.Interrupt(); }
  absl::Status Shutdown(const std::string& reason, bool job_finished) override;

 private:
  // CoreEffects. The core calls these while its lock is held.
  void SendToWorker(int worker, v1::ChiefToWorker message) override {
    streams_->SendToWorker(worker, message);
  }
  void SendSharedToWorker(int worker, v1::ChiefToWorker message,
                          std::shared_ptr<const std::string> rest) override {
    streams_->SendToWorker(worker, message, std::move(rest));
  }
  void SendToPs(int ps, v1::ChiefToPs message) override { streams_->SendToPs(ps, message); }
  void DialJoined(Task task, const std::string& address) override { streams_->Dial(task, address); }
  void HangUp(Task task) override { streams_->HangUp(task); }
  void Reconnect(Task task, const std::string& why) override;
  void TakeGeneration(uint64_t heard) override { journal_->TakeGeneration(heard); }
  void ReadJournal() override { journal_->Read(); }
  void AppendJournal(v1::JournalRecord record) override { journal_->Append(std::move(record)); }
  void WriteManifest(v1::Manifest manifest) override { checkpoints_->Write(std::move(manifest)); }
  void ClosureDone(uint64_t token, const absl::Status& status, v1::ClosureResult* result) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu());
  void CutDone(uint64_t cut, const absl::Status& status) override {
    checkpoints_->OnCutDone(cut, status);
  }
  void RollbackDone(const absl::Status& status) override { restoration_->OnRollbackDone(status); }
  void Note(const char* event, const std::string& what) override {
    options_.log->Info(event, {{"what", what}});
  }
  void Warn(const char* event, const std::string& what) override {
    options_.log->Warning(event, {{"what", what}});
  }

  absl::Status StartJoins();
  // Makes the task that serves at `address` a member of the cluster, as the journal has it.
  absl::StatusOr<Task> Join(Role role, const std::string& address);
  // The workers and servers as they are now.
  ClusterSpec Peers() const;
  absl::Status WaitUntilReady();
  absl::StatusOr<bool> JoinUntil(TimePoint deadline);
  JournalThread::Callbacks JournalCallbacks();
  // The directory no longer belongs to this chief: fails the core.
  void LoseDirectory(const absl::Status& why);
  // The time of this process, pauses included.
  int64_t NowUs() const;
  void Tick();
  // What the calls wait for, in the text for on_wait.
  std::string WaitingFor() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu());
  // Waits until `ended_by` returns true: a thread has ended. Meanwhile reports that the call waits
  // for the storage under `what`.
  void AwaitEnd(const char* what, const std::function<bool(TimePoint)>& ended_by);

  const CoordinatorOptions options_;
  const TimePoint start_;
  bool closed_ = false;  // only the thread of Close uses it

  mutable LockedCore core_;
  const std::shared_ptr<WaitingFetches> fetches_ = std::make_shared<WaitingFetches>(&core_);
  ClosureResults results_ ABSL_GUARDED_BY(core_.mu()){fetches_};
  std::optional<TimePoint> first_closure_ ABSL_GUARDED_BY(core_.mu());
  AttendedClock clock_ ABSL_GUARDED_BY(core_.mu());  // the core's
  uint64_t ticks_ ABSL_GUARDED_BY(core_.mu()) = 0;
  std::string closing_ ABSL_GUARDED_BY(core_.mu());  // what Close waits for; "": nothing
  JobDefinition definition_{&core_, options_.closures_hash, options_.former_layout};

  // Begin creates these before other threads use them, and each has its own locks. They stand in
  // the order of dependency. Close ends their threads.
  std::unique_ptr<OwnedDirectory> directory_;
  std::unique_ptr<ChiefCheckpoints> checkpoints_;
  std::unique_ptr<Restoration> restoration_;
  std::unique_ptr<JournalThread> journal_;
  std::unique_ptr<ControlStreams> streams_;
  std::unique_ptr<JoinService> joins_;  // null: no task may join
};

CoordinatorImpl::CoordinatorImpl(const CoordinatorOptions& options)
    : options_(options), start_(options.clock->Now()), core_(options.clock, options.interrupt) {}

// ------------------------------------------------------------------ start and time

absl::Status CoordinatorImpl::Begin() {
  COHORT_RETURN_IF_ERROR(CheckOptions(options_));
  auto directory = OwnedDirectory::Take(options_);
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(directory.status()));
  directory_ = *std::move(directory);
  COHORT_ASSIGN_OR_RETURN(JournalContents journal, directory_->ReadJournal(options_.log));
  const bool continued = !journal.records.empty();
  CoreOptions core =
      CoreOptionsOf(options_, directory_->token(), continued, JoinedIn(journal.records));
  journal_ = std::make_unique<JournalThread>(directory_->path(), directory_->journal_path(),
                                             JournalCallbacks(), std::move(journal));
  checkpoints_ = std::make_unique<ChiefCheckpoints>(
      &options_, directory_.get(), &core_, [this](const absl::Status& why) { LoseDirectory(why); });
  restoration_ = std::make_unique<Restoration>(&options_, &core_, checkpoints_.get());
  core.clock_us = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu()) { return clock_.At(NowUs()); };
  COHORT_ASSIGN_OR_RETURN(streams_,
                          ControlStreams::Create(options_, core.workers, core.ps, &core_));
  core_.Create(std::move(core), this);
  streams_->Start([this] { Tick(); });
  COHORT_RETURN_IF_ERROR(StartJoins());

  absl::Status ready = WaitUntilReady();
  // A chief that takes over removes this chief's token: no server can find it then.
  if (absl::IsFailedPrecondition(ready)) COHORT_RETURN_IF_ERROR(directory_->Check());
  return ready;
}

absl::Status CoordinatorImpl::StartJoins() {
  if (options_.join_bind.empty()) return absl::OkStatus();
  JoinService::Options joins;
  joins.listen = options_.join_bind;
  if (options_.security != nullptr) joins.security = options_.security;
  joins.log = options_.log;
  joins.join = [this](Role role, const std::string& address) { return Join(role, address); };
  joins.peers = [this] { return Peers(); };
  auto started = JoinService::Start(std::move(joins));
  if (!started.ok()) return Annotate(started.status(), "--join_bind");
  joins_ = *std::move(started);
  return absl::OkStatus();
}

absl::StatusOr<Task> CoordinatorImpl::Join(Role role, const std::string& address) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  COHORT_ASSIGN_OR_RETURN(const Task task, core->Join(role, address));
  const auto settled = [core, task] { return core->view().joined.settled(task); };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, core_.Wait(settled, core_.Deadline(kJoinSeconds)));
  if (!in_time) return Unavailable("the chief's journal does not take the {}", task.ToString());
  return task;
}

absl::Status CoordinatorImpl::MoveTablets(const TabletMove& move) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  COHORT_RETURN_IF_ERROR(core->MoveTablets(move));
  if (move.what != TabletMove::What::kAdd) return absl::OkStatus();
  const std::vector<std::string>& servers = core->view().context.options.ps;
  const auto at = std::find(servers.begin(), servers.end(), move.address);
  const Task task = PsTask(static_cast<int>(at - servers.begin()));
  const Membership& membership = core->view().membership;
  const auto adopted = [&membership, task] { return membership.adopted(task); };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, core_.Wait(adopted, core_.Deadline(kJoinSeconds)));
  if (in_time) return absl::OkStatus();
  const std::string& why = membership.member(task).why_down;
  return Unavailable("{} is not reached yet: {}. The chief tries for 30 s, and then forgets it",
                     membership.Name(task), why.empty() ? "it has not answered" : why);
}

ClusterSpec CoordinatorImpl::Peers() const {
  MutexLock lock(core_.mu());
  const CoreView& view = core_.get()->view();
  ClusterSpec peers;
  for (const Task task : view.membership.tasks()) {
    const auto& all =
        task.role == Role::kWorker ? view.context.options.workers : view.context.options.ps;
    if (const auto address = ParseAddress(all[static_cast<size_t>(task.index)]); address.ok()) {
      peers.Set(task, *address);
    }
  }
  return peers;
}

absl::Status CoordinatorImpl::WaitUntilReady() {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  const auto ready = [core] { return core->view().phase() == CoordinatorCore::Phase::kReady; };
  const double limit_s = StartTimeoutOf(options_);
  COHORT_ASSIGN_OR_RETURN(const bool in_time, core_.Wait(ready, core_.Deadline(limit_s)));
  if (!in_time) return core_.GaveUp(limit_s);
  return core_.failed() ? core->TakeError() : absl::OkStatus();
}

int64_t CoordinatorImpl::NowUs() const {
  const auto since = options_.clock->Now() - start_;
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count() + 1;
}

void CoordinatorImpl::Tick() {
  const int64_t now_us = NowUs();
  int64_t stopped_us = 0;
  std::string report;
  {
    MutexLock lock(core_.mu());
    stopped_us = clock_.Tick(now_us);
    core_.get()->Tick(clock_.At(now_us));
    ++ticks_;
    core_.waits()->Wake();
    core_.waits()->CheckFlag();
    report = core_.waits()->TakeReport(
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu()) { return WaitingFor(); });
  }
  if (stopped_us > 0) {
    options_.log->Warning("chief_was_stopped", {{"seconds", static_cast<double>(stopped_us) / 1e6},
                                                {"effect", "the tasks have all their time again"}});
  }
  if (!report.empty() && options_.on_wait) options_.on_wait(report);
}

std::string CoordinatorImpl::WaitingFor() const {
  if (!closing_.empty()) return closing_;
  std::string text = core_.get()->view().WaitingFor();
  return text.empty() ? core_.waits()->Describe() : text;
}

// ------------------------------------------------------------------ effects and the journal

void CoordinatorImpl::Reconnect(Task task, const std::string& why) {
  options_.log->Info("reconnect", {{"task", task.ToString()}, {"why", why}});
  streams_->Reconnect(task);
}

void CoordinatorImpl::ClosureDone(uint64_t token, const absl::Status& status,
                                  v1::ClosureResult* result) {
  if (!first_closure_.has_value() && status.ok()) first_closure_ = options_.clock->Now();
  results_.Finish(token, status, result);
}

JournalThread::Callbacks CoordinatorImpl::JournalCallbacks() {
  JournalThread::Callbacks callbacks;
  callbacks.on_generation = [this](absl::StatusOr<uint64_t> generation) {
    core_.Input([&](CoordinatorCore* core) { core->OnGeneration(generation); });
  };
  callbacks.on_recovered = [this](absl::StatusOr<Recovered> recovered) {
    core_.Input([&](CoordinatorCore* core) { core->OnRecovered(std::move(recovered)); });
  };
  callbacks.on_durable = [this](uint64_t record) {
    core_.Input([&](CoordinatorCore* core) { core->OnJournaled(record); });
  };
  callbacks.on_error = [this](const absl::Status& status, bool broken) {
    options_.log->Failure(LogLevel::kError, "journal_error", status);
    core_.Input([&](CoordinatorCore* core) {
      if (broken) {
        core->FailForGood(Annotate(status, "the journal"));
      } else {
        core->OnJournaled(status);
      }
    });
  };
  callbacks.on_segment_error = [this](const absl::Status& status) {
    options_.log->Failure(LogLevel::kWarning, "journal_segment_failed", status);
  };
  callbacks.check = [this] { return directory_->Check(); };
  callbacks.on_lost = [this](const absl::Status& status) { LoseDirectory(status); };
  return callbacks;
}

void CoordinatorImpl::LoseDirectory(const absl::Status& why) {
  options_.log->Failure(LogLevel::kError, "checkpoint_dir_lost", why);
  core_.Input([&](CoordinatorCore* core) { core->FailForGood(why); });
}

// ------------------------------------------------------------------ the client's calls

absl::Status CoordinatorImpl::CreateVariables(std::span<const v1::VariableSpec> variables,
                                              std::span<const v1::OptimizerSpec> optimizers,
                                              const v1::PartitionerSpec& partitioner,
                                              std::string_view placement) {
  COHORT_RETURN_IF_ERROR(definition_.SetVariables(variables, optimizers, partitioner, placement));
  return restoration_->ResumeOrRestore();
}

absl::StatusOr<RemoteValue> CoordinatorImpl::Schedule(ClosureSpec spec) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  const auto room = [core, &spec] {
    return !core->view().error_pending() && core->view().has_room(spec);
  };
  if (!core_.failed() && !room()) {
    COHORT_RETURN_IF_ERROR(core_.Wait(room, CallWaits::kForever).status());
  }
  auto [token, value] = results_.New();
  spec.token = token;
  const absl::StatusOr<uint64_t> id = core->Schedule(std::move(spec));
  if (id.ok()) return std::move(value);
  results_.Forget(token);
  return id.status();
}

absl::StatusOr<bool> CoordinatorImpl::JoinUntil(TimePoint deadline) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  core->AddWaiting(1);
  const absl::StatusOr<bool> finished =
      core_.Wait([core] { return core->view().idle(); }, deadline);
  core->AddWaiting(-1);
  COHORT_RETURN_IF_ERROR(finished.status());
  if (!*finished) return false;
  COHORT_RETURN_IF_ERROR(core->TakeError());
  return true;
}

absl::StatusOr<bool> CoordinatorImpl::Done() {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  core->AddWaiting(1);  // a step that only waits for more closures is closed now
  core->AddWaiting(-1);
  const auto settled = [core] { return !core->view().error_pending(); };
  COHORT_RETURN_IF_ERROR(core_.Wait(settled, CallWaits::kForever).status());
  COHORT_RETURN_IF_ERROR(core->TakeError());
  return core->view().idle();
}

std::vector<UnfinishedClosure> CoordinatorImpl::Unfinished() const {
  MutexLock lock(core_.mu());
  return core_.get()->view().Unfinished();
}

absl::Status CoordinatorImpl::EndEpoch(const v1::EpochRecord* record) {
  MutexLock lock(core_.mu());
  return core_.get()->EndEpoch(record);
}

std::vector<v1::EpochRecord> CoordinatorImpl::History() const {
  MutexLock lock(core_.mu());
  return core_.get()->history();
}

absl::Status CoordinatorImpl::SetMode(const ModeSettings& settings) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  COHORT_RETURN_IF_ERROR(core->SetMode(settings));
  const auto changed = [core] { return !core->view().steps.mode().changing(); };
  COHORT_RETURN_IF_ERROR(core_.Wait(changed, CallWaits::kForever).status());
  if (core_.failed()) return core->TakeError();
  if (core->view().steps.mode().settings() == settings) return absl::OkStatus();
  return Aborted("the cluster was rolled back before the mode changed: set it again");
}

absl::Status CoordinatorImpl::SetLearningRate(double rate, bool by_user) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  // A lost server never has the rate.
  const auto changed = [core] {
    return !core->view().steps.rates().changing() || !core->view().served();
  };
  // The training loop waits as long as for its closures.
  const TimePoint deadline =
      by_user ? core_.Deadline(options_.task_timeout_s) : CallWaits::kForever;
  const auto late = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu()) {
    return DeadlineExceeded("the learning rate has not changed everywhere after {} s: {}",
                            options_.task_timeout_s, WaitingFor());
  };
  COHORT_ASSIGN_OR_RETURN(const bool former, core_.Wait(changed, deadline));
  if (!former) return late();
  COHORT_RETURN_IF_ERROR(core->SetLearningRate(rate, by_user));
  COHORT_ASSIGN_OR_RETURN(const bool in_time, core_.Wait(changed, deadline));
  if (!in_time) return late();
  if (core_.failed()) return core->TakeError();
  if (core->view().served()) return absl::OkStatus();
  return Unavailable("a parameter server was lost before it had the learning rate");
}

void CoordinatorImpl::SetPaused(bool paused) {
  MutexLock lock(core_.mu());
  if (core_.get() != nullptr) core_.get()->SetPaused(paused);
}

absl::StatusOr<std::map<std::string, Tensor>> CoordinatorImpl::ReadVariables() {
  COHORT_ASSIGN_OR_RETURN(const std::string path, checkpoints_->Take(/*finished=*/false));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path, {}));
  std::map<std::string, Tensor> out;
  for (const auto& [key, tensor] : reader->tensors()) {
    if (!key.second.empty()) continue;
    COHORT_ASSIGN_OR_RETURN(out[key.first], reader->Read(key.first, ""));
  }
  return out;
}

CoordinatorState CoordinatorImpl::state() const {
  MutexLock lock(core_.mu());
  CoordinatorState s{core_.get()->view().State()};
  s.waiting_for = WaitingFor();
  s.ticks = ticks_;
  s.journal_fsyncs = journal_->fsyncs();
  s.checkpoint_age_seconds = ToSeconds(checkpoints_->age());
  s.first_closure = first_closure_;
  return s;
}

// ------------------------------------------------------------------ the end

void CoordinatorImpl::Flush() {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  // After Shutdown the phase differs, and there is nothing to flush.
  if (core == nullptr || core->view().phase() != CoordinatorCore::Phase::kReady) return;
  core->Flush();
  // It does not wait for a full disk either.
  const auto clean = [core] {
    return core->view().settlement.clean() || core->view().journal.refused();
  };
  // It waits even after an interrupt, because callers flush after one.
  core_.WaitDespiteInterrupt(clean, core_.Deadline(options_.flush_limit_s));
}

absl::Status CoordinatorImpl::Shutdown(const std::string& reason, bool job_finished) {
  bool journaled = false;
  std::string waiting_for;
  {
    MutexLock lock(core_.mu());
    CoordinatorCore* const core = core_.get();
    core->Stop(reason, job_finished);
    const auto stopped = [core] {
      return core->view().phase() == CoordinatorCore::Phase::kStopped;
    };
    COHORT_ASSIGN_OR_RETURN(const bool in_time, core_.Wait(stopped, core_.Deadline(30)));
    if (core_.failed()) return core->TakeError();
    if (!in_time) return DeadlineExceeded("the end of the job could not be journaled in time");
    journaled = core->view().stop_journaled();
    waiting_for = core->view().WaitingFor();
    streams_->StopDialing();
  }
  if (!journaled) {
    options_.log->Warning("job_end_not_journaled",
                          {{"why", waiting_for}, {"proof", checkpoints_->newest()}});
  }
  COHORT_ASSIGN_OR_RETURN(const int open, streams_->WaitUntilClosed(core_.Deadline(10)));
  if (open > 0) options_.log->Warning("tasks_still_there", {{"count", open}});
  return absl::OkStatus();
}

void CoordinatorImpl::Close() {
  if (std::exchange(closed_, true)) return;
  joins_.reset();
  Flush();
  fetches_->Close();
  if (streams_ != nullptr) {
    streams_->StopDialing();
    streams_->Shutdown();
  }
  // The threads end in this order because each one feeds the next.
  if (checkpoints_ != nullptr) {
    AwaitEnd("a manifest is being written",
             [this](TimePoint deadline) { return checkpoints_->EndCommits(deadline); });
  }
  if (journal_ != nullptr) {
    AwaitEnd("the journal is being written",
             [this](TimePoint deadline) { return journal_->EndUntil(deadline); });
  }
  if (checkpoints_ != nullptr) {
    AwaitEnd("old checkpoints are being deleted",
             [this](TimePoint deadline) { return checkpoints_->EndDeletions(deadline); });
  }
  MutexLock lock(core_.mu());
  results_.FinishAll(Cancelled("the coordinator is gone"));
}

void CoordinatorImpl::AwaitEnd(const char* what, const std::function<bool(TimePoint)>& ended_by) {
  const TimePoint since = options_.clock->Now();
  std::string waiting;
  while (!ended_by(core_.Deadline(waiting.empty() ? 1 : 3))) {
    waiting = fmt::format("waiting for the storage of {}: {}, {:.0f} s", options_.checkpoint_dir,
                          what, ToSeconds(options_.clock->Now() - since));
    {
      MutexLock lock(core_.mu());
      closing_ = waiting;
    }
    if (options_.on_wait) options_.on_wait(waiting);
  }
  MutexLock lock(core_.mu());
  closing_.clear();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Start(
    const CoordinatorOptions& options) {
  FlushDenormals();
  absl::Status failed = LoadPlugins(options.plugins, options.log);
  auto coordinator = std::make_unique<CoordinatorImpl>(options);
  if (failed.ok()) failed = coordinator->Begin();
  if (failed.ok()) return coordinator;
  if (options.on_failed_start) options.on_failed_start(failed);
  return failed;
}

absl::Status ClusterCoordinator::CreateVariables(std::span<const v1::VariableSpec> variables,
                                                 const v1::OptimizerSpec& optimizer,
                                                 const v1::PartitionerSpec& partitioner,
                                                 std::string_view placement) {
  return CreateVariables(variables, {&optimizer, 1}, partitioner, placement);
}

}  // namespace cohort
