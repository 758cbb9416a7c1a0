#include "chief/job/job_controls.h"

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

absl::Status JobControls::Read(const Start& start) {
  MutexLock changing(&changing_);
  directory_ = start.directory;
  note_ = stored_ = {};
  if (!start.fresh) {
    COHORT_ASSIGN_OR_RETURN(stored_, ReadControlNote(directory_));
    note_ = stored_;
    note_.paused &= start.restarted;
    if (!start.restarted) note_.fenced_workers.clear();
  }
  if (note_.epochs_of_file != plan_->spec().fit().epochs()) note_.epochs = note_.epochs_of_file = 0;
  if (note_.epochs > plan_->schedule().epochs) {
    plan_->SetEpochs(note_.epochs);
    console_->Print(
        fmt::format("the job has {} epochs: `cohort ctl extend` has added to the {} of "
                    "the job file",
                    note_.epochs, note_.epochs_of_file));
  }
  Publish();
  return absl::OkStatus();
}

absl::Status JobControls::Keep() {
  MutexLock changing(&changing_);
  return note_ == stored_ ? absl::OkStatus() : Store(note_);
}

absl::Status JobControls::Forget() {
  MutexLock changing(&changing_);
  if (stored_ != ControlNote()) COHORT_RETURN_IF_ERROR(Store({}));
  note_ = {};
  plan_->SetEpochs(plan_->spec().fit().epochs());
  Publish();
  return absl::OkStatus();
}

void JobControls::Attach(TrainingCluster* cluster) {
  MutexLock changing(&changing_);
  training_is_done_ = false;
  for (const int worker : note_.fenced_workers) {
    const absl::Status fenced = cluster->FenceWorker(worker, /*fenced=*/true, /*again=*/true);
    console_->Print(fenced.ok()
                        ? fmt::format("worker:{} is fenced: `cohort ctl unfence` ends this", worker)
                        : std::string(fenced.message()));
  }
  if (!note_.paused) return;
  cluster->SetPaused(true);
  console_->Print("the job is paused: `cohort ctl resume` continues it");
}

absl::Status JobControls::ApplyEdits(const std::vector<KeyChange>& changes,
                                     TrainingCluster* cluster) {
  std::string edited;
  for (const KeyChange& change : changes) {
    if (!change.key.starts_with("compile.optimizer.learning_rate")) continue;
    edited += fmt::format("{}: {}\n", change.key, change.now);
  }
  MutexLock changing(&changing_);
  if (edited == note_.edited_rate) return absl::OkStatus();
  if (!edited.empty() && cluster->state().learning_rate.has_value()) {
    COHORT_RETURN_IF_ERROR(cluster->SetLearningRate(-1, /*by_user=*/true));
  }
  ControlNote note = note_;
  note.edited_rate = edited;
  return Store(note);
}

absl::Status JobControls::SetPaused(bool paused, TrainingCluster* cluster) {
  MutexLock changing(&changing_);
  ControlNote note = note_;
  note.paused = paused;
  COHORT_RETURN_IF_ERROR(Store(note));
  cluster->SetPaused(paused);
  return absl::OkStatus();
}

absl::Status JobControls::FenceWorker(int worker, bool fenced, TrainingCluster* cluster) {
  MutexLock changing(&changing_);
  COHORT_RETURN_IF_ERROR(cluster->FenceWorker(worker, fenced, /*again=*/false));
  ControlNote note = note_;
  if (fenced) {
    note.fenced_workers.insert(worker);
  } else {
    note.fenced_workers.erase(worker);
  }
  return Annotate(Store(note), "it counts now, but a chief that restarts will not know it");
}

absl::Status JobControls::Extend(uint64_t epochs) {
  MutexLock changing(&changing_);
  const uint64_t now = std::max(plan_->schedule().epochs, note_.epochs);
  if (epochs <= now) {
    return InvalidArgument(
        "the job has {} epochs already, and `--epochs` counts all of them: "
        "give more",
        now);
  }
  if (training_is_done_) {
    return FailedPrecondition(
        "the training has ended: start the job again with `fit: {{epochs: {}}}`", epochs);
  }
  ControlNote note = note_;
  note.epochs = epochs;
  note.epochs_of_file = plan_->spec().fit().epochs();
  return Store(note);
}

void JobControls::UpdateEpochs(bool ends) {
  MutexLock changing(&changing_);
  if (note_.epochs > plan_->schedule().epochs) {
    plan_->SetEpochs(note_.epochs);
  } else if (ends) {
    training_is_done_ = true;
  }
  Publish();
  MutexLock lock(&mu_);
  asked_.steps = plan_->schedule().steps();
}

JobControls::Asked JobControls::asked() const {
  MutexLock lock(&mu_);
  return asked_;
}

absl::Status JobControls::Store(const ControlNote& note) {
  COHORT_RETURN_IF_ERROR(TempFailIfDiskFull(WriteControlNote(directory_, note)));
  note_ = stored_ = note;
  Publish();
  return absl::OkStatus();
}

void JobControls::Publish() {
  MutexLock lock(&mu_);
  asked_.epochs = plan_->schedule().epochs;
  asked_.paused = note_.paused;
}

}  // namespace cohort
