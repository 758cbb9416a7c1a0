#include "chief/job/first_weights.h"

#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

void LogChange(const KeyChange& change, const JobLines& lines, Logger* log) {
  log->Info("job_changed", {{"key", change.key},
                            {"old", change.then},
                            {"new", change.now},
                            {"where", LineOf(lines, change.key)}});
}

absl::StatusOr<InitialWeights> FirstWeights::OfCheckpoints(const std::string& directory) const {
  v1::InitialWeightsSpec by_name;
  by_name.set_skip_mismatch(true);
  InitialWeights weights;
  COHORT_ASSIGN_OR_RETURN(weights.source, OpenCheckpointWeights(directory));
  COHORT_ASSIGN_OR_RETURN(weights.match, MatchWeights(by_name, plan_->model().variables,
                                                      plan_->job().layers, *weights.source));
  return weights;
}

absl::Status FirstWeights::TakeFromFormerJob(const NewTraining& training, JobControls* controls) {
  const std::string directory = directory_->path();
  console_->SetActivity("reading the weights of the newest checkpoint in " + directory);
  const auto weights = OfCheckpoints(directory);
  if (absl::IsInvalidArgument(weights.status())) {
    return WithExitCode(
        FailedPrecondition("{} holds checkpoints of another job, and this one can take none of "
                           "their weights: {}. Give another checkpoint directory",
                           directory, std::string(weights.status().message())),
        ExitCode::kConfig);
  }
  COHORT_RETURN_IF_ERROR(weights.status());
  const std::string& source = weights->source->path();
  const auto checkpoint = CheckpointId::Parse(source.substr(source.find_last_of('/') + 1));
  if (!checkpoint.has_value()) return Internal("{} has not the name of a checkpoint", source);
  COHORT_RETURN_IF_ERROR(directory_->lock()->Check());
  COHORT_RETURN_IF_ERROR(WriteInitialValues(*weights, plan_->model().variables, plan_->identity(),
                                            directory_->PathOf(kInitialValuesName)));
  // What `cohort ctl` has changed belongs to the former job.
  COHORT_RETURN_IF_ERROR(controls->Forget());
  std::string text = fmt::format(
      "this job differs from that of the checkpoints in {}, so it starts from the weights of {}:",
      directory, checkpoint->ToString());
  for (const KeyChange& change : training.changes) {
    LogChange(change, plan_->job().lines, log_);
    text += fmt::format("\n  {}: {} -> {}", change.key, change.then, change.now);
  }
  const std::string kept = weights->Text();
  COHORT_RETURN_IF_ERROR(directory_->SetFormerAside(*checkpoint));
  const std::string former = directory_->PathOf(directory_->former()->directory);
  log_->Info("job_starts_from_weights",
             {{"from", directory_->PathOf(directory_->former()->CheckpointName())},
              {"kept", kept},
              {"new", "the optimizer's state, step, epoch and history"}});
  console_->Print(fmt::format(
      "{}\nkept: {}\nnew: the optimizer's state, the step, the epoch and the history of epochs\n"
      "the checkpoints of the former job are in {}, which is a checkpoint directory of its own",
      text, kept, former));
  return absl::OkStatus();
}

absl::Status FirstWeights::Write() {
  const auto& former = directory_->former();
  if (!former.has_value()) {
    return plan_->spec().has_initial_weights() ? WriteOfJobFile() : absl::OkStatus();
  }
  const std::string path = directory_->PathOf(kInitialValuesName);
  COHORT_ASSIGN_OR_RETURN(const bool written, HoldsInitialValues(path, plan_->identity()));
  if (written) {
    log_->Info("initial_weights_kept", {{"path", path}});
    return absl::OkStatus();
  }
  // The job file has changed since, before there was a checkpoint.
  COHORT_ASSIGN_OR_RETURN(const InitialWeights weights,
                          OfCheckpoints(directory_->PathOf(former->CheckpointName())));
  COHORT_RETURN_IF_ERROR(directory_->lock()->Check());
  COHORT_RETURN_IF_ERROR(
      WriteInitialValues(weights, plan_->model().variables, plan_->identity(), path));
  log_->Info("initial_weights", {{"what", weights.Text()}});
  console_->Print("initial weights: " + weights.Text());
  return absl::OkStatus();
}

absl::StatusOr<InitialWeights> FirstWeights::OfJobFile() {
  const v1::InitialWeightsSpec& spec = plan_->spec().initial_weights();
  const JobLines& lines = plan_->job().lines;
  console_->SetActivity("reading the initial weights " + spec.path());
  auto weights =
      FindInitialWeights(spec, lines.file, plan_->model().variables, plan_->job().layers);
  COHORT_RETURN_IF_ERROR(Annotate(weights.status(), lines.Where("initial_weights")));
  return weights;
}

absl::Status FirstWeights::Check() {
  COHORT_ASSIGN_OR_RETURN(const InitialWeights weights, OfJobFile());
  const std::string where = plan_->job().lines.Where("initial_weights");
  COHORT_RETURN_IF_ERROR(Annotate(directory_->CheckKeeps(weights.source->path()), where));
  return Annotate(CheckInitialValues(weights, plan_->model().variables), where);
}

absl::Status FirstWeights::WriteOfJobFile() {
  const std::string path = directory_->PathOf(kInitialValuesName);
  COHORT_ASSIGN_OR_RETURN(const bool has_journal, directory_->HasJournal());
  COHORT_ASSIGN_OR_RETURN(const bool written, HoldsInitialValues(path, plan_->identity()));
  if (has_journal && written) {
    log_->Info("initial_weights_kept", {{"path", path}});
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const InitialWeights weights, OfJobFile());
  COHORT_RETURN_IF_ERROR(directory_->lock()->Check());
  COHORT_RETURN_IF_ERROR(
      WriteInitialValues(weights, plan_->model().variables, plan_->identity(), path));
  log_->Info("initial_weights", {{"what", weights.Text()}});
  console_->Print("initial weights: " + weights.Text());
  ReportDifferences(weights.source->path());
  return absl::OkStatus();
}

void FirstWeights::ReportDifferences(const std::string& checkpoint) {
  const auto manifest = ReadManifest(JoinPath(checkpoint, kManifestName));
  const auto then = manifest.ok() ? KeysOfManifest(*manifest) : std::nullopt;
  if (!then.has_value()) return;  // another kind of file
  std::string text;
  for (const KeyChange& change : ChangesOf(*then, plan_->keys())) {
    const auto below = [&](std::string_view key) { return change.key.starts_with(key); };
    if (below("initial_weights") || below("checkpoint") || below("report") || below("servers")) {
      continue;
    }
    LogChange(change, plan_->job().lines, log_);
    text += fmt::format("\n  {}: {} -> {}", change.key, change.then, change.now);
  }
  console_->Print(
      fmt::format("only weights are taken from it: the optimizer's state, the step and the epoch "
                  "start fresh{}{}",
                  text.empty() ? "" : ". What differs from its job:", text));
}

}  // namespace cohort
