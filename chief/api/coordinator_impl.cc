#include "chief/api/coordinator_impl.h"

#include <chrono>
#include <utility>

#include "chief/api/start_options.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

ClusterCoordinator::Impl::Impl(const CoordinatorOptions& options)
    : options_(options),
      start_(options.clock->Now()),
      core_(options.clock, options.task_timeout_s, options.interrupt) {}

ClusterCoordinator::Impl::~Impl() { Close(); }

// ------------------------------------------------------------------ start and time

absl::Status ClusterCoordinator::Impl::Start() {
  COHORT_RETURN_IF_ERROR(CheckOptions(options_));
  auto directory = OwnedDirectory::Take(options_);
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(directory.status()));
  directory_ = *std::move(directory);
  COHORT_ASSIGN_OR_RETURN(JournalContents journal, directory_->ReadJournal(options_.log));
  const bool continued = !journal.records.empty();
  journal_ = std::make_unique<JournalThread>(directory_->path(), directory_->journal_path(),
                                             JournalCallbacks(), std::move(journal));
  checkpoints_ = std::make_unique<ChiefCheckpoints>(
      &options_, directory_.get(), &core_, [this](const absl::Status& why) { LoseDirectory(why); });
  restoration_ = std::make_unique<Restoration>(&options_, &core_, checkpoints_.get());
  CoreOptions core = CoreOptionsOf(options_, directory_->token(), continued);
  core.clock_us = [this] { return NowUs(); };
  core_.Create(std::move(core), this);
  COHORT_ASSIGN_OR_RETURN(streams_, ControlStreams::Create(options_, &core_));
  streams_->Start([this] { Tick(); });

  absl::Status ready = WaitUntilReady();
  // A chief that takes over removes this chief's token: no server can find it then.
  if (absl::IsFailedPrecondition(ready)) COHORT_RETURN_IF_ERROR(directory_->Check());
  return ready;
}

absl::Status ClusterCoordinator::Impl::WaitUntilReady() {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  const auto ready = [core] { return core->view().phase() == CoordinatorCore::Phase::kReady; };
  COHORT_ASSIGN_OR_RETURN(const bool in_time,
                          core_.Wait(ready, core_.Deadline(options_.task_timeout_s)));
  if (!in_time) return core_.GaveUp();
  return core_.failed() ? core->TakeError() : absl::OkStatus();
}

int64_t ClusterCoordinator::Impl::NowUs() const {
  const auto since = options_.clock->Now() - start_;
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count() + 1;
}

void ClusterCoordinator::Impl::Tick() {
  const int64_t now_us = NowUs();
  std::string report;
  {
    MutexLock lock(core_.mu());
    core_.get()->Tick(now_us);
    ++ticks_;
    core_.waits()->Wake();
    core_.waits()->CheckFlag();
    report = core_.waits()->TakeReport(
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_.mu()) { return WaitingFor(); });
  }
  if (!report.empty() && options_.on_wait) options_.on_wait(report);
}

std::string ClusterCoordinator::Impl::WaitingFor() {
  if (!closing_.empty()) return closing_;
  std::string text = core_.get()->view().WaitingFor();
  return text.empty() ? core_.waits()->Describe() : text;
}

// ------------------------------------------------------------------ effects and the journal

void ClusterCoordinator::Impl::Reconnect(Task task, const std::string& why) {
  options_.log->Info("reconnect", {{"task", task.ToString()}, {"why", why}});
  streams_->Reconnect(task);
}

void ClusterCoordinator::Impl::ClosureDone(uint64_t token, const absl::Status& status,
                                           v1::ClosureResult* result) {
  if (!first_closure_.has_value() && status.ok()) first_closure_ = options_.clock->Now();
  results_.Finish(token, status, result);
}

void ClusterCoordinator::Impl::Warn(const char* event, const std::string& what) {
  options_.log->Warning(event, {{"what", what}});
}

void ClusterCoordinator::Impl::Note(const char* event, const std::string& what) {
  options_.log->Info(event, {{"what", what}});
}

JournalThread::Callbacks ClusterCoordinator::Impl::JournalCallbacks() {
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

void ClusterCoordinator::Impl::LoseDirectory(const absl::Status& why) {
  options_.log->Failure(LogLevel::kError, "checkpoint_dir_lost", why);
  core_.Input([&](CoordinatorCore* core) { core->FailForGood(why); });
}

// ------------------------------------------------------------------ the client's calls

absl::StatusOr<RemoteValue> ClusterCoordinator::Impl::Schedule(ClosureSpec spec) {
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

absl::StatusOr<bool> ClusterCoordinator::Impl::JoinUntil(TimePoint deadline) {
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

absl::StatusOr<bool> ClusterCoordinator::Impl::Done() {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  core->AddWaiting(1);  // a step that only waits for more closures is closed now
  core->AddWaiting(-1);
  const auto settled = [core] { return !core->view().error_pending(); };
  COHORT_RETURN_IF_ERROR(core_.Wait(settled, CallWaits::kForever).status());
  COHORT_RETURN_IF_ERROR(core->TakeError());
  return core->view().idle();
}

std::vector<UnfinishedClosure> ClusterCoordinator::Impl::Unfinished() {
  MutexLock lock(core_.mu());
  return core_.get()->view().Unfinished();
}

absl::Status ClusterCoordinator::Impl::EndEpoch() {
  MutexLock lock(core_.mu());
  return core_.get()->EndEpoch();
}

absl::Status ClusterCoordinator::Impl::SetMode(const ModeSettings& settings) {
  MutexLock lock(core_.mu());
  CoordinatorCore* const core = core_.get();
  COHORT_RETURN_IF_ERROR(core->SetMode(settings));
  const auto changed = [core] { return !core->view().steps.mode().changing(); };
  COHORT_RETURN_IF_ERROR(core_.Wait(changed, CallWaits::kForever).status());
  if (core_.failed()) return core->TakeError();
  if (core->view().steps.mode().settings() == settings) return absl::OkStatus();
  return Aborted("the cluster was rolled back before the mode changed: set it again");
}

void ClusterCoordinator::Impl::Fetches::AddWaiting(int calls) {
  MutexLock lock(&mu_);
  if (core_ == nullptr) return;
  core_->Input([calls](CoordinatorCore* core) { core->AddWaiting(calls); });
}

void ClusterCoordinator::Impl::Fetches::Close() {
  MutexLock lock(&mu_);
  core_ = nullptr;
}

CoordinatorState ClusterCoordinator::Impl::state() {
  MutexLock lock(core_.mu());
  CoordinatorState s{core_.get()->view().State()};
  s.waiting_for = WaitingFor();
  s.ticks = ticks_;
  s.journal_fsyncs = journal_->fsyncs();
  s.checkpoint_age_seconds = ToSeconds(checkpoints()->age());
  s.first_closure = first_closure_;
  return s;
}

// ------------------------------------------------------------------ the end

void ClusterCoordinator::Impl::Flush() {
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

absl::Status ClusterCoordinator::Impl::Shutdown(const std::string& reason, bool job_finished) {
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

void ClusterCoordinator::Impl::Close() {
  if (std::exchange(closed_, true)) return;
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

void ClusterCoordinator::Impl::AwaitEnd(const char* what,
                                        const std::function<bool(TimePoint)>& ended_by) {
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

}  // namespace cohort
