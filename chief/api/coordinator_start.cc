// The walk of a ClusterCoordinator:
//
//   1. Start takes the checkpoint directory's lock and token, and starts threads and streams. The
//      core probes and adopts the tasks.
//   2. CreateVariables sets the layout. It calls Resume for live servers, or RollBackOnce to the
//      newest checkpoint.
//   3. Restore, after a lost ps, calls WaitForServers and RollBackOnce until a rollback succeeds.
//   4. Shutdown calls the core's Stop. The tasks close their streams.
//   5. Close makes finished closures durable, and ends threads and streams.
#include <utility>

#include "chief/api/close_reason.h"
#include "chief/api/coordinator_impl.h"
#include "common/base/exit_code.h"
#include "common/base/fnv1a.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/placement/message_size.h"
#include "common/placement/placement.h"
#include "common/rpc/stream/frame_codec.h"

namespace cohort {
namespace {

std::vector<std::string> Addresses(const ClusterSpec& cluster, Role role) {
  std::vector<std::string> out;
  for (const auto& [index, address] : cluster.tasks(role)) out.push_back(address.ToString());
  return out;
}

}  // namespace

ClusterCoordinator::Impl::Impl(const CoordinatorOptions& options)
    : options_(options),
      log_(options.log),
      start_(options.clock->Now()),
      next_report_(start_ + std::chrono::seconds(1)) {}

ClusterCoordinator::Impl::~Impl() { Close(); }

void ClusterCoordinator::Impl::Close() {
  if (std::exchange(closed_, true)) return;
  Flush();
  if (links_ != nullptr) links_->Stop();
  loop_.Shutdown();
  // The threads end in this order because each one feeds the next.
  const auto end_of = [](auto* thread) {
    return
        [thread](TimePoint deadline) { return thread == nullptr || thread->FinishUntil(deadline); };
  };
  AwaitEnd("a manifest is being written", end_of(disk_.get()));
  AwaitEnd("the journal is being written", [this](TimePoint deadline) {
    return journal_ == nullptr || journal_->EndUntil(deadline);
  });
  AwaitEnd("old checkpoints are being deleted", end_of(retention_.get()));
  MutexLock lock(&mu_);
  results_.FinishAll(Cancelled("the coordinator is gone"));
}

void ClusterCoordinator::Impl::AwaitEnd(const char* what,
                                        const std::function<bool(TimePoint)>& ended_by) {
  const TimePoint since = options_.clock->Now();
  std::string waiting;
  while (!ended_by(Deadline(waiting.empty() ? 1 : 3))) {
    waiting = fmt::format("waiting for the storage of {}: {}, {:.0f} s", options_.checkpoint_dir,
                          what, ToSeconds(options_.clock->Now() - since));
    {
      MutexLock lock(&mu_);
      closing_ = waiting;
    }
    if (options_.on_wait) options_.on_wait(waiting);
  }
  MutexLock lock(&mu_);
  closing_.clear();
}

absl::Status ClusterCoordinator::Impl::CheckOptions() const {
  for (const Role role : {Role::kWorker, Role::kPs}) {
    const auto& tasks = options_.cluster.tasks(role);
    if (tasks.empty()) {
      return WithExitCode(InvalidArgument("TF_CONFIG: the cluster has no {}", RoleName(role)),
                          ExitCode::kConfig);
    }
    if (tasks.rbegin()->first != static_cast<int>(tasks.size()) - 1) {
      return WithExitCode(
          InvalidArgument("TF_CONFIG: cluster.{} has {} tasks, but its highest index is {}: the "
                          "chief must know them all",
                          RoleName(role), tasks.size(), tasks.rbegin()->first),
          ExitCode::kConfig);
    }
  }
  if (options_.pull_ahead > 0) {
    return WithExitCode(
        Unimplemented("pull_ahead {} is not supported yet: a worker pulls when its push is "
                      "acknowledged",
                      options_.pull_ahead),
        ExitCode::kConfig);
  }
  if (options_.checkpoint_dir.empty()) {
    return WithExitCode(
        InvalidArgument("a checkpoint directory is needed: the chief's journal lies "
                        "in it"),
        ExitCode::kConfig);
  }
  return absl::OkStatus();
}

CoreOptions ClusterCoordinator::Impl::MakeCoreOptions(const std::string& token,
                                                      bool continued) const {
  CoreOptions core;
  static_cast<JobSettings&>(core) = options_;
  core.workers = Addresses(options_.cluster, Role::kWorker);
  core.ps = Addresses(options_.cluster, Role::kPs);
  core.continued = continued;
  core.directory_token = token;
  return core;
}

absl::Status ClusterCoordinator::Impl::TakeLock() {
  lock_ = options_.lock;
  if (lock_ != nullptr) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(MakeDirectories(options_.checkpoint_dir));
  COHORT_ASSIGN_OR_RETURN(lock_, DirectoryLock::Take({.directory = options_.checkpoint_dir,
                                                      .job = options_.job,
                                                      .incarnation = options_.chief_incarnation,
                                                      .takeover = options_.takeover}));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ClusterCoordinator::Impl::TakeDirectory() {
  COHORT_RETURN_IF_ERROR(TakeLock());
  COHORT_ASSIGN_OR_RETURN(std::string token,
                          CreateDirectoryToken(options_.checkpoint_dir, options_.chief_incarnation,
                                               [this] { return lock_->Check(); }));
  COHORT_RETURN_IF_ERROR(MakeDirectories(JournalDirectory()));
  return token;
}

absl::Status ClusterCoordinator::Impl::Start() {
  COHORT_RETURN_IF_ERROR(CheckOptions());
  const auto token = TakeDirectory();
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(token.status()));
  COHORT_ASSIGN_OR_RETURN(JournalContents journal,
                          ReadJournalOf(options_.checkpoint_dir, JournalDirectory()));
  const bool continued = !journal.records.empty();
  if (!continued) {
    COHORT_ASSIGN_OR_RETURN(const auto checkpoints, ListCheckpoints(options_.checkpoint_dir));
    // The checkpoints were copied here, or the whole journal was moved away.
    if (!checkpoints.empty()) {
      log_->Warning("journal_missing", {{"directory", JournalDirectory()},
                                        {"continues_from", checkpoints.back().directory}});
    }
  }
  journal_ = std::make_unique<JournalThread>(options_.checkpoint_dir, JournalDirectory(),
                                             JournalCallbacks(), std::move(journal));
  disk_ = std::make_unique<SerialThread>("disk");
  retention_ = std::make_unique<SerialThread>("retention");
  {
    MutexLock lock(&mu_);
    core_ = std::make_unique<CoordinatorCore>(MakeCoreOptions(*token, continued), this);
  }
  TaskLinks::Options links{.workers = Addresses(options_.cluster, Role::kWorker),
                           .ps = Addresses(options_.cluster, Role::kPs),
                           .security = options_.security};
  COHORT_ASSIGN_OR_RETURN(links_, TaskLinks::Create(links, &loop_, LinkCallbacks()));
  loop_.Start("control");
  loop_.Post([this] { Tick(); });
  links_->Start();

  absl::Status ready = WaitUntilReady();
  // A chief that takes over removes this chief's token: no server can find it then.
  if (absl::IsFailedPrecondition(ready)) COHORT_RETURN_IF_ERROR(lock_->Check());
  return ready;
}

absl::Status ClusterCoordinator::Impl::WaitUntilReady() {
  MutexLock lock(&mu_);
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || core_->phase() == CoordinatorCore::Phase::kReady;
  };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, Wait(there, Deadline(options_.task_timeout_s)));
  if (!in_time) {
    return GaveUp();
  }
  return Failed() ? core_->TakeError() : absl::OkStatus();
}

absl::Status ClusterCoordinator::Impl::GaveUp() {
  return DeadlineExceeded(
      "{}: gave up after {} s; start what is missing, or correct its address in TF_CONFIG",
      core_->WaitingFor(), options_.task_timeout_s);
}

absl::Status ClusterCoordinator::Impl::CreateVariables(std::span<const v1::VariableSpec> variables,
                                                       const v1::OptimizerSpec& optimizer,
                                                       const v1::PartitionerSpec& partitioner,
                                                       std::string_view placement) {
  uint64_t timeline = 0;
  std::string began_from;
  bool resumed = false;
  {
    MutexLock lock(&mu_);
    PlacementOptions options{.strategy = std::string(placement)};
    for (int i = 0; i < core_->membership().ps(); ++i) {
      options.cores.push_back(static_cast<int>(std::max(1U, core_->ps_hello(i).cores())));
    }
    COHORT_ASSIGN_OR_RETURN(layout_, MakeLayout(variables, partitioner, optimizer, options));
    COHORT_RETURN_IF_ERROR(CheckMessageSizes(layout_, programs_));
    core_->SetLayout(layout_, Fnv1a(layout_.SerializeAsString()));
    resumed = core_->CanResume();
    timeline = core_->timeline();
    began_from = core_->began_from();
    if (resumed) {
      core_->Resume();
      Note("job_resumed",
           fmt::format("timeline {}, {} steps done", timeline, core_->settlement().steps()));
    }
  }
  if (!resumed) return Restore();
  COHORT_ASSIGN_OR_RETURN(std::string newest, NewestOf(timeline, began_from));
  MutexLock lock(&mu_);
  newest_ = std::move(newest);
  return absl::OkStatus();
}

// Returns the last checkpoint of the timeline. If it has none, returns the one from which the
// timeline began: a rollback has discarded newer ones on disk.
absl::StatusOr<std::string> ClusterCoordinator::Impl::NewestOf(uint64_t timeline,
                                                               const std::string& manifest) const {
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(options_.checkpoint_dir));
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->id.timeline == timeline && ReadManifest(entry->manifest).ok()) {
      return entry->directory;
    }
  }
  return manifest.substr(0, manifest.find_last_of('/'));
}

absl::Status ClusterCoordinator::Impl::Restore() {
  const TimePoint deadline = Deadline(options_.task_timeout_s);
  while (true) {
    COHORT_RETURN_IF_ERROR(WaitForServers(deadline));
    const absl::Status status = RollBackOnce(deadline);
    if (status.ok()) return status;
    const auto info = GetFailure(status);
    const bool again = info.has_value() && info->role == "ps" && info->retryable;
    if (!again || options_.clock->Now() >= deadline) return status;
  }
}

absl::Status ClusterCoordinator::Impl::WaitForServers(TimePoint deadline) {
  MutexLock lock(&mu_);
  const auto there = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || core_->all_ps_there();
  };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, Wait(there, deadline));
  if (Failed()) return core_->TakeError();
  if (!in_time) {
    absl::Status status = GaveUp();
    SetFailure(&status, {.role = "ps", .retryable = false});
    return status;
  }
  return absl::OkStatus();
}

absl::Status ClusterCoordinator::Impl::RollBackOnce(TimePoint deadline) {
  std::vector<std::string> refusals;
  const auto refused = [&](const std::string& path, const absl::Status& why) {
    const std::string reason(why.message());
    log_->Warning("checkpoint_refused", {{"path", path}, {"why", reason}});
    refusals.push_back(fmt::format("checkpoint {} {} ({})", path.substr(0, path.find_last_of('/')),
                                   absl::IsDataLoss(why) ? "is damaged" : "cannot be used",
                                   reason));
    if (options_.on_wait) options_.on_wait(refusals.back() + "; restoring the one before it");
  };
  {
    // If a manifest were committed from now on, it would become the newest, and its retention could
    // delete the checkpoint that is found here and restored.
    MutexLock lock(&mu_);
    core_->DropCut();
  }
  COHORT_ASSIGN_OR_RETURN(const auto entry, NewestValid(options_.checkpoint_dir, refused));
  if (!entry.has_value() && !refusals.empty()) {
    // A silent start at step 0 would lose checkpoints that the user may still repair.
    return WithExitCode(
        DataLoss("none of the {} checkpoints in {} can be used; the newest: {}. Repair or remove "
                 "them, give another directory, or --fresh to start from the beginning",
                 refusals.size(), options_.checkpoint_dir, refusals.front()),
        ExitCode::kData);
  }
  std::optional<v1::Manifest> manifest;
  if (entry.has_value()) {
    COHORT_ASSIGN_OR_RETURN(manifest, ReadManifest(entry->manifest));
    if (manifest->job() != options_.job) {
      return WithExitCode(
          FailedPrecondition("{} holds checkpoints of another job ({}, not {}): give another "
                             "directory, or --fresh to delete them",
                             options_.checkpoint_dir, manifest->job(), options_.job),
          ExitCode::kConfig);
    }
  }
  MutexLock lock(&mu_);
  rollback_done_.reset();
  COHORT_RETURN_IF_ERROR(core_->RollBack(manifest.has_value() ? &*manifest : nullptr,
                                         entry.has_value() ? entry->manifest : ""));
  const auto done = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || rollback_done_.has_value();
  };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, Wait(done, std::max(deadline, Deadline(300))));
  if (Failed()) return core_->TakeError();
  if (!in_time) return DeadlineExceeded("{}", core_->WaitingFor());
  if (rollback_done_->ok() && entry.has_value()) newest_ = entry->directory;
  log_->Info("tablets_assigned", {{"timeline", core_->timeline()},
                                  {"from", entry.has_value() ? entry->directory : "initializers"},
                                  {"status", rollback_done_->ToString()}});
  return *rollback_done_;
}

absl::Status ClusterCoordinator::Impl::Shutdown(const std::string& reason, bool job_finished) {
  MutexLock lock(&mu_);
  core_->Stop(reason, job_finished);
  const auto stopped = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Failed() || core_->phase() == CoordinatorCore::Phase::kStopped;
  };
  COHORT_ASSIGN_OR_RETURN(const bool in_time, Wait(stopped, Deadline(30)));
  if (Failed()) return core_->TakeError();
  if (!in_time) return DeadlineExceeded("the end of the job could not be journaled in time");
  if (!core_->stop_journaled()) {
    log_->Warning("job_end_not_journaled", {{"why", core_->WaitingFor()}, {"proof", newest_}});
  }
  links_->Stop();
  const auto closed = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return open_links_ == 0; };
  COHORT_ASSIGN_OR_RETURN(const bool all, Wait(closed, Deadline(10)));
  if (!all) log_->Warning("tasks_still_there", {{"count", open_links_}});
  return absl::OkStatus();
}

// ------------------------------------------------------------------ inputs of the core

JournalThread::Callbacks ClusterCoordinator::Impl::JournalCallbacks() {
  JournalThread::Callbacks callbacks;
  callbacks.on_generation = [this](absl::StatusOr<uint64_t> generation) {
    Input([&](CoordinatorCore* core) { core->OnGeneration(generation); });
  };
  callbacks.on_recovered = [this](absl::StatusOr<Recovered> recovered) {
    Input([&](CoordinatorCore* core) { core->OnRecovered(std::move(recovered)); });
  };
  callbacks.on_durable = [this](uint64_t record) {
    Input([&](CoordinatorCore* core) { core->OnJournaled(record); });
  };
  callbacks.on_error = [this](const absl::Status& status, bool broken) {
    log_->Failure(LogLevel::kError, "journal_error", status);
    Input([&](CoordinatorCore* core) {
      if (broken) {
        core->FailForGood(Annotate(status, "the journal"));
      } else {
        core->OnJournalRefused(status);
      }
    });
  };
  callbacks.on_segment_error = [this](const absl::Status& status) {
    log_->Failure(LogLevel::kWarning, "journal_segment_failed", status);
  };
  callbacks.check = [this] { return lock_->Check(); };
  callbacks.on_lost = [this](const absl::Status& status) { LoseDirectory(status); };
  return callbacks;
}

void ClusterCoordinator::Impl::LoseDirectory(const absl::Status& why) {
  log_->Failure(LogLevel::kError, "checkpoint_dir_lost", why);
  Input([&](CoordinatorCore* core) { core->FailForGood(why); });
}

TaskLinks::Callbacks ClusterCoordinator::Impl::LinkCallbacks() {
  TaskLinks::Callbacks callbacks;
  callbacks.on_connected = [this](Task task) {
    Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      ++open_links_;
      core->OnConnected(task);
    });
  };
  callbacks.on_frame = [this](Task task, Frame frame) {
    absl::Status status;
    if (task.role == Role::kWorker) {
      v1::WorkerToChief message;
      status = ParseFromFrame(frame, &message);
      if (status.ok()) {
        Input(
            [&](CoordinatorCore* core) { core->OnWorkerMessage(task.index, std::move(message)); });
      }
    } else {
      v1::PsToChief message;
      status = ParseFromFrame(frame, &message);
      if (status.ok()) {
        Input([&](CoordinatorCore* core) { core->OnPsMessage(task.index, message); });
      }
    }
    if (!status.ok()) {
      log_->Failure(LogLevel::kWarning, "bad_message", Annotate(status, task.ToString()));
      links_->Reconnect(task);
    }
  };
  callbacks.on_closed = [this](Task task, const absl::Status& status, bool was_connected) {
    Input([&](CoordinatorCore* core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      if (was_connected) --open_links_;
      if (links_->stopped()) return;
      const Address& address = options_.cluster.tasks(task.role).at(task.index);
      core->OnDisconnected(task, CloseReason(status, address.ToString()));
    });
  };
  return callbacks;
}

}  // namespace cohort
