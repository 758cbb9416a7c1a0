#include "chief/job/job_walk.h"

#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// How long workers have nothing to read before this is called a wait.
constexpr double kWaitShownSeconds = 0.5;
// The role in the payload of EndForReplicas.
constexpr char kReplicaRole[] = "replica";

}  // namespace

// The row "a server is lost" of the table in common/base/status.h.
bool JobWalk::NamesLostServer(const absl::Status& status) {
  const auto info = GetFailure(status);
  return info.has_value() && info->role == "ps" && info->retryable;
}

bool JobWalk::EndedForReplicas(const absl::Status& status) {
  const auto info = GetFailure(status);
  return info.has_value() && info->role == kReplicaRole;
}

JobWalk::JobWalk(const Environment& environment, const Options& options)
    : env_(environment),
      job_name_(options.job_name),
      learning_rate_(options.learning_rate),
      ends_with_other_weights_(options.ends_with_other_weights),
      stream_place_(options.stream_place),
      policy_(options.checkpoints, env_.clock),
      epochs_(env_.cluster, env_.schedule, env_.clock, options.epochs),
      validation_(env_.cluster, env_.schedule, env_.clock, options.validation, env_.console,
                  env_.metrics),
      progress_(env_.schedule, options.progress, env_.clock, env_.log, env_.console, env_.metrics) {
}

absl::Status JobWalk::Run() {
  COHORT_RETURN_IF_ERROR(Begin());
  env_.console->SetActivity("training");
  COHORT_RETURN_IF_ERROR(Train());
  env_.console->SetActivity("taking the last checkpoint");
  return Finish();
}

// ------------------------------------------------------------------ 1. Begin

absl::Status JobWalk::Begin() {
  epochs_.TakeUnfinished();
  FindBestAgain();
  RecallEpochs(env_.cluster->History());
  env_.console->SetActivity("taking the first checkpoint");
  if (const absl::Status status = ApplyBetweenEpochs(); !status.ok()) {
    COHORT_RETURN_IF_ERROR(Recover(status));
  }
  return TakeFirstCheckpoint();
}

// It also finds a directory that cannot be written before the training starts.
absl::Status JobWalk::TakeFirstCheckpoint() {
  const CoordinatorState state = env_.cluster->state();
  Restart(state);
  COHORT_ASSIGN_OR_RETURN(continued_, env_.catalog->HasCheckpoint());
  if (continued_) {
    const uint64_t all = env_.schedule->steps();
    const bool more = state.epoch > env_.schedule->epochs || state.steps > all;
    const bool endless = env_.schedule->stream != nullptr && env_.schedule->max_steps == 0;
    env_.console->Print(
        endless ? fmt::format("continuing {} at step {}", job_name_, state.steps)
        : more
            ? fmt::format("{} has done {} steps, more than the {} that it is asked for now: it is "
                          "finished",
                          job_name_, state.steps, all)
            : fmt::format("continuing {} at step {} of {}", job_name_, state.steps, all));
    return absl::OkStatus();
  }
  while (true) {
    const absl::Status status = MustCheckpoint(/*finished=*/false);
    if (status.ok()) return status;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the first checkpoint"));
  }
}

// ------------------------------------------------------------------ 2. Train

absl::Status JobWalk::Train() {
  CoordinatorState state = env_.cluster->state();
  bool validate_again = LacksValidation(state);
  const auto is_done = [&](bool ends) {
    if (env_.update_epochs) env_.update_epochs(ends);
    return TrainingIsDone(state);
  };
  while (!is_done(/*ends=*/false) || validate_again || !is_done(/*ends=*/true)) {
    const absl::Status status =
        validate_again ? ValidateAgain(state.epoch) : TrainEpoch(state.epoch);
    if (!status.ok()) COHORT_RETURN_IF_ERROR(Recover(status));
    state = env_.cluster->state();
    validate_again = !status.ok() && LacksValidation(state);
  }
  return absl::OkStatus();
}

bool JobWalk::TrainingIsDone(const CoordinatorState& state) const {
  if (state.epoch >= env_.schedule->epochs || stopped()) return true;
  const uint64_t most = env_.schedule->max_steps;
  return most > 0 && state.next_place >= most && (epochs_.BetweenEpochs(state) || ended_inside_);
}

bool JobWalk::LacksValidation(const CoordinatorState& state) const {
  return !validation_.IsDone(state.epoch) && epochs_.BetweenEpochs(state);
}

absl::Status JobWalk::TrainEpoch(uint64_t epoch) {
  COHORT_RETURN_IF_ERROR(epochs_.Run(epoch, [&](const CoordinatorState& state) {
    CheckpointIfDue(state);
    ShowWait(state);
    ShowCopies(state);
    progress_.Update(state, epoch);
    COHORT_RETURN_IF_ERROR(CheckFinite(state, epoch));
    return EndForReplicas(state);
  }));
  const bool ends_inside = env_.schedule->EndsInside(epoch);
  if (ends_inside && env_.cluster->state().next_place == env_.schedule->BeginOf(epoch)) {
    ended_inside_ = true;  // a stream has ended with the window before
    return absl::OkStatus();
  }
  ShowEpoch(epoch);
  if (ends_inside) return EndInside(epoch);
  if (env_.callbacks != nullptr) return CloseWithCallbacks(epoch);
  COHORT_RETURN_IF_ERROR(env_.cluster->EndEpoch(/*record=*/nullptr));
  // A checkpoint before the validation would be written again with the figure. Nothing is trained
  // in between.
  const bool after = CheckpointIsLast(epoch + 1);
  if (!after) COHORT_RETURN_IF_ERROR(CheckpointEpoch(epoch + 1));
  COHORT_RETURN_IF_ERROR(Validate(epoch + 1));
  return after ? CheckpointEpoch(epoch + 1) : absl::OkStatus();
}

void JobWalk::ShowCopies(const CoordinatorState& state) {
  if (state.counters.replaced > replaced_) {
    env_.console->Print(
        "a parameter server is lost: those that have copies of its variables have taken over, and "
        "nothing is rolled back (`cohort ctl RUN rebalance`, or `rebalance: auto` in the job file, "
        "spreads the work again)");
  }
  replaced_ = state.counters.replaced;
  const bool degraded = state.tablets_alone > 0;
  if (degraded != degraded_) {
    env_.console->Print(
        degraded
            ? fmt::format("degraded: {} tablets have no copy; if their server is lost, too, the "
                          "job goes back to its newest checkpoint",
                          state.tablets_alone)
            : "each tablet has a copy again");
  }
  degraded_ = degraded;
}

void JobWalk::ShowWait(const CoordinatorState& state) {
  if (env_.schedule->stream == nullptr) return;
  const uint64_t most = env_.schedule->max_steps;
  const bool waits = state.queued + state.in_flight == 0 &&
                     state.next_place >= env_.schedule->KnownEnd() &&
                     (most == 0 || state.next_place < most);
  if (!waits) {
    idle_since_.reset();
    if (std::exchange(waits_for_files_, false)) env_.console->SetActivity("training");
    return;
  }
  // The first files may be found at once.
  if (!idle_since_.has_value()) idle_since_ = env_.clock->Now();
  if (waits_for_files_ || ToSeconds(env_.clock->Now() - *idle_since_) < kWaitShownSeconds) return;
  waits_for_files_ = true;
  const std::string wait = fmt::format("waiting for files in {}", stream_place_);
  env_.console->SetActivity(wait);
  env_.console->Print(wait);
  env_.log->Info("waiting_for_files", {{"place", stream_place_}, {"step", state.steps}});
}

void JobWalk::ShowEpoch(uint64_t epoch) {
  const CoordinatorState state = env_.cluster->state();
  training_metrics_ = state.metrics;
  progress_.EndEpoch(state, epoch, epochs_.figures().last_rate);
}

// A chief that dies before EndEpoch does all of this again, with the same result.
absl::Status JobWalk::CloseWithCallbacks(uint64_t epoch) {
  const uint64_t finished = epoch + 1;
  COHORT_RETURN_IF_ERROR(Validate(finished));
  const bool validated = env_.schedule->ValidatesAfter(finished);
  const std::optional<double> rate = env_.cluster->state().last_learning_rate;
  const v1::EpochRecord record = env_.callbacks->RecordOf(
      finished, training_metrics_, validated ? validation_.metrics() : std::vector<MetricState>(),
      rate.has_value() ? rate : learning_rate_);
  env_.callbacks->EndEpoch(record);
  for (const std::string& line : env_.callbacks->TakeNews()) {
    env_.console->Print(line);
    env_.log->Info("callback", {{"says", line}, {"epoch", finished}});
  }
  if (!stopped() && finished < env_.schedule->epochs) COHORT_RETURN_IF_ERROR(ApplyLearningRate());
  COHORT_RETURN_IF_ERROR(env_.cluster->EndEpoch(&record));
  for (const CallbackFile& file : env_.callbacks->Files()) {
    if (env_.write_file) env_.write_file(file);
  }
  if (stopped()) {
    env_.log->Info("training_stopped", {{"by", env_.callbacks->stopped()}, {"epoch", finished}});
    env_.console->Print(
        env_.schedule->stream != nullptr
            ? fmt::format("{}; training ends after window {}", env_.callbacks->stopped(), finished)
            : fmt::format("{}; training ends after epoch {} of {}", env_.callbacks->stopped(),
                          finished, env_.schedule->epochs));
  }
  return CheckpointEpoch(finished);
}

absl::Status JobWalk::ApplyLearningRate() {
  if (env_.callbacks == nullptr) return absl::OkStatus();
  const std::optional<double> wanted = env_.callbacks->learning_rate();
  const std::optional<double> set = env_.cluster->state().learning_rate;
  if (!wanted.has_value() || wanted == (set.has_value() ? set : learning_rate_)) {
    return absl::OkStatus();
  }
  const absl::Status status = env_.cluster->SetLearningRate(*wanted, /*by_user=*/false);
  if (status.ok()) return status;
  // If a server is lost, Join returns that error.
  COHORT_RETURN_IF_ERROR(env_.cluster->Join());
  return status;
}

// A chief may have died, or a rollback may have come, before the rate of the next epoch was set.
absl::Status JobWalk::ApplyBetweenEpochs() {
  const CoordinatorState state = env_.cluster->state();
  const bool between = env_.callbacks != nullptr && epochs_.BetweenEpochs(state) &&
                       env_.callbacks->Knows(state.epoch) && !TrainingIsDone(state);
  return between ? ApplyLearningRate() : absl::OkStatus();
}

// The epoch stays open: a job that is given more steps continues in it.
absl::Status JobWalk::EndInside(uint64_t epoch) {
  if (env_.schedule->validates()) COHORT_RETURN_IF_ERROR(ValidateState(epoch + 1, epoch));
  env_.console->Print(
      env_.schedule->stream != nullptr
          ? fmt::format("the training ends at step {}, inside window {}", env_.schedule->max_steps,
                        epoch + 1)
          : fmt::format("`fit.max_steps` ends the training at step {}, inside epoch {}",
                        env_.schedule->max_steps, epoch + 1));
  ended_inside_ = true;
  return absl::OkStatus();
}

bool JobWalk::CheckpointIsLast(uint64_t finished_epochs) const {
  return env_.callbacks != nullptr ||
         (env_.best != nullptr && env_.schedule->ValidatesAfter(finished_epochs));
}

absl::Status JobWalk::CheckpointEpoch(uint64_t finished_epochs) {
  const CoordinatorState state = env_.cluster->state();
  const bool exists =
      env_.best != nullptr && env_.best->HasCheckpointOf(finished_epochs, state.next_place);
  const bool due = policy_.DueAfter(finished_epochs) && !exists;
  const bool best = env_.best != nullptr && env_.best->TakeDue();
  // Finish takes the last checkpoint.
  const bool last = finished_epochs >= env_.schedule->epochs || stopped();
  if (!(due || best) || last) return absl::OkStatus();
  const absl::Status status = env_.cluster->Checkpoint(/*finished=*/false);
  policy_.Restart(state.steps);
  if (env_.best != nullptr) env_.best->Announce();
  // The cluster has logged and counted a failed checkpoint, and training continues. If a server is
  // lost, the next call returns that error.
  return absl::IsCancelled(status) ? status : absl::OkStatus();
}

absl::Status JobWalk::Validate(uint64_t finished_epochs) {
  if (!env_.schedule->ValidatesAfter(finished_epochs)) return absl::OkStatus();
  SaveFromLosses();
  COHORT_RETURN_IF_ERROR(ValidateState(finished_epochs, finished_epochs));
  validation_.MarkDone(finished_epochs);
  return absl::OkStatus();
}

absl::Status JobWalk::ValidateState(uint64_t epoch, uint64_t at) {
  COHORT_RETURN_IF_ERROR(validation_.Run(epoch));
  if (env_.best != nullptr) {
    env_.best->Judge(validation_.metrics(), at, env_.cluster->state(),
                     env_.cluster->newest_checkpoint());
  }
  return absl::OkStatus();
}

absl::Status JobWalk::ValidateAgain(uint64_t finished_epochs) {
  COHORT_RETURN_IF_ERROR(Validate(finished_epochs));
  return CheckpointIsLast(finished_epochs) ? CheckpointEpoch(finished_epochs) : absl::OkStatus();
}

absl::Status JobWalk::CheckFinite(const CoordinatorState& state, uint64_t epoch) const {
  if (env_.callbacks == nullptr || !env_.callbacks->needs_finite_values()) return absl::OkStatus();
  if (state.counters.not_finite == 0) return absl::OkStatus();
  return InvalidArgument(
      "TerminateOnNaN: the loss is infinite or NaN at step {}, epoch {}. The newest checkpoint is "
      "{}; continue from one before that step, with a smaller learning rate",
      state.counters.first_not_finite_step, epoch + 1, env_.cluster->newest_checkpoint());
}

void JobWalk::CheckpointIfDue(const CoordinatorState& state) {
  if (!policy_.DueAt(state.steps)) return;
  policy_.Restart(state.steps);
  const absl::Status status = env_.cluster->StartCheckpoint();
  if (!status.ok()) env_.log->Failure(LogLevel::kWarning, "checkpoint_failed", status);
}

// A validation does not end for a replica that leaves. If it is lost then, the epoch stays.
void JobWalk::SaveFromLosses() {
  const uint64_t steps = env_.cluster->state().steps;
  if (!env_.replicas_change || policy_.IsFresh(steps)) return;
  policy_.Restart(steps);
  const absl::Status status = env_.cluster->StartCheckpoint();
  if (!status.ok()) env_.log->Failure(LogLevel::kWarning, "checkpoint_failed", status);
}

absl::Status JobWalk::EndForReplicas(const CoordinatorState& state) {
  // The end of the job is near.
  if (state.next_place >= env_.schedule->steps()) return absl::OkStatus();
  if (!env_.replicas_change || !env_.replicas_change()) return absl::OkStatus();
  policy_.Restart(state.steps);
  const absl::Status taken = env_.cluster->Checkpoint(/*finished=*/false);
  // Join returns the error of a server that is lost.
  if (!taken.ok()) return absl::IsCancelled(taken) ? taken : absl::OkStatus();
  absl::Status ended = Unavailable("replicas come or leave");
  SetFailure(&ended, {.role = kReplicaRole, .retryable = true});
  return ended;
}

// ------------------------------------------------------------------ 3. Finish

absl::Status JobWalk::Finish() {
  while (true) {
    absl::Status status = RestoreBest();
    if (status.ok()) status = CheckpointBest();
    if (status.ok()) status = MustCheckpoint(/*finished=*/true);
    if (status.ok()) break;
    COHORT_RETURN_IF_ERROR(Annotate(Recover(status), "the last checkpoint"));
    COHORT_RETURN_IF_ERROR(Train());
  }
  if (env_.best != nullptr) env_.best->Announce();
  return absl::OkStatus();
}

absl::Status JobWalk::RestoreBest() {
  if (env_.callbacks == nullptr || !env_.callbacks->restores_best()) return absl::OkStatus();
  const auto best = env_.best != nullptr ? env_.best->best() : std::nullopt;
  const CoordinatorState state = env_.cluster->state();
  if (!best.has_value() || best->step() >= state.next_place || env_.best->IsBest(state)) {
    return absl::OkStatus();
  }
  const std::string path = env_.catalog->PathOf(best->checkpoint());
  env_.console->SetActivity("restoring the best checkpoint");
  const std::string why = env_.callbacks->stopped();
  const absl::Status restored = env_.cluster->RestoreFrom(path);
  if (absl::IsFailedPrecondition(restored) || absl::IsDataLoss(restored)) {
    env_.console->Print(
        fmt::format("warning: the job ends with its last weights; {} is the best "
                    "checkpoint and cannot be restored: {}",
                    path, std::string(restored.message())));
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_ERROR(restored);
  FindBestAgain();
  RecallEpochs({});
  env_.callbacks->NoteTrained(state.epoch, state.next_place, why);
  env_.console->Print(fmt::format("the job ends with the weights of its best epoch: {} ({})", path,
                                  BestText(*best)));
  return absl::OkStatus();
}

absl::Status JobWalk::CheckpointBest() {
  if (!ends_with_other_weights_ || env_.best == nullptr) return absl::OkStatus();
  return env_.best->IsBest(env_.cluster->state()) ? MustCheckpoint(/*finished=*/false)
                                                  : absl::OkStatus();
}

// ------------------------------------------------------------------ helpers of all parts

absl::Status JobWalk::MustCheckpoint(bool finished) {
  while (true) {
    const absl::Status status = env_.cluster->Checkpoint(finished);
    if (status.ok()) return status;
    // The checkpoint may have failed because a server is lost: Join returns that error.
    COHORT_RETURN_IF_ERROR(env_.cluster->Join());
    // A server without memory must not look like a full disk.
    if (!NamesLostServer(status)) return TempFailIfDiskFull(status);
    // A server was only away, and kept its state.
    COHORT_RETURN_IF_ERROR(env_.cluster->AwaitServers());
  }
}

absl::Status JobWalk::Recover(const absl::Status& error) {
  if (!NamesLostServer(error)) return error;
  if (env_.gives_up && env_.gives_up(GetFailure(error)->index, IsBack(error))) return error;
  env_.console->Print(
      fmt::format("{}; going back to the newest checkpoint", std::string(error.message())));
  const CoordinatorState lost = env_.cluster->state();
  // Other errors that were raised meanwhile come from the same loss.
  const absl::Status more = env_.cluster->Join();
  if (absl::IsCancelled(more)) return more;
  env_.console->SetActivity("restoring the newest checkpoint");
  COHORT_RETURN_IF_ERROR(env_.cluster->Restore());
  COHORT_RETURN_IF_ERROR(rollbacks_.Count(env_.cluster->newest_checkpoint(), error, lost));
  FindBestAgain();
  RecallEpochs(env_.cluster->History());
  ended_inside_ = waits_for_files_ = false;
  env_.console->SetActivity("training");
  epochs_.TakeUnfinished();
  // The server may be lost again; RollbackLimit ends that.
  if (const absl::Status status = ApplyBetweenEpochs(); !status.ok()) return Recover(status);
  const CoordinatorState state = env_.cluster->state();
  validation_.ForgetAfter(state.epoch);
  Restart(state);
  env_.console->Print(fmt::format("restored: continuing at step {}", state.steps));
  return absl::OkStatus();
}

bool JobWalk::IsBack(const absl::Status& error) const {
  const std::vector<bool> servers = env_.cluster->state().servers;
  const auto index = static_cast<size_t>(GetFailure(error)->index);
  return index < servers.size() && servers[index];
}

void JobWalk::FindBestAgain() {
  if (env_.best == nullptr) return;
  env_.console->SetActivity("looking for the best checkpoint");
  const bool figure_known =
      env_.best->FindAgain(env_.cluster->newest_checkpoint(), env_.cluster->state().timeline);
  if (!figure_known) validation_.ForgetAfter(0);
}

void JobWalk::RecallEpochs(const std::vector<v1::EpochRecord>& journal) {
  if (env_.callbacks == nullptr) return;
  const std::string from = env_.cluster->newest_checkpoint();
  if (from.empty()) return env_.callbacks->ContinueFrom(nullptr, journal);
  const auto manifest = env_.catalog->Read(from);
  if (!manifest.ok()) {
    env_.log->Failure(LogLevel::kWarning, "history_unknown", manifest.status());
  }
  env_.callbacks->ContinueFrom(manifest.ok() ? &*manifest : nullptr, journal);
  (void)env_.callbacks->TakeNews();
  if (stopped()) env_.console->Print(env_.callbacks->stopped() + "; the training has ended");
}

void JobWalk::Restart(const CoordinatorState& state) {
  policy_.Restart(state.steps);
  progress_.Restart(state);
}

}  // namespace cohort
