#include "chief/job/job_continuation.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/data/fingerprint.h"
#include "common/model/data_check.h"

namespace cohort {
namespace {

constexpr size_t kMostNamed = 10;  // keys in one error

std::vector<KeyChange> Only(std::vector<KeyChange> changes, std::initializer_list<Change> kinds) {
  std::erase_if(changes, [&](const KeyChange& c) {
    return std::find(kinds.begin(), kinds.end(), c.change) == kinds.end();
  });
  return changes;
}

std::vector<KeyChange> AtEpochEnd(std::vector<KeyChange> changes) {
  return Only(std::move(changes), {Change::kAtEpochEnd, Change::kStepsOfEpoch});
}

bool HaveSameSteps(const v1::EpochPlan& a, const v1::EpochPlan& b) {
  return a.steps_per_epoch() == b.steps_per_epoch() && a.batch_size() == b.batch_size();
}

}  // namespace

std::string LineOf(const JobLines& lines, const std::string& key) {
  const std::string outermost = key.substr(0, key.find_first_of(".["));
  return lines.keys.contains(outermost) ? lines.Where(key) : "";
}

std::string JobContinuation::TextOf(const std::vector<KeyChange>& changes) const {
  std::string text;
  for (size_t i = 0; i < std::min(changes.size(), kMostNamed); ++i) {
    const KeyChange& change = changes[i];
    const std::string line = LineOf(plan_->job().lines, change.key);
    text += fmt::format("{}{}: {} -> {}", text.empty() ? "" : "; ", change.key, change.then,
                        change.now);
    if (!line.empty()) text += fmt::format(" ({})", line);
  }
  if (changes.size() > kMostNamed) {
    text += fmt::format("; and {} more", changes.size() - kMostNamed);
  }
  return text;
}

std::string JobContinuation::PathOf(const v1::Manifest& manifest) const {
  return JoinPath(directory_, IdOf(manifest).ToString());
}

absl::StatusOr<Continuation> JobContinuation::From(const v1::Manifest& newest) const {
  // What is learned from the training data is a part of the job's keys, so the data comes first.
  COHORT_RETURN_IF_ERROR(CheckTrainingData(newest));
  Continuation continuation;
  COHORT_ASSIGN_OR_RETURN(continuation.changes, CompareKeys(newest));
  if (!Only(continuation.changes, {Change::kFromWeights}).empty()) {
    continuation.only_weights = true;
    return continuation;
  }
  COHORT_RETURN_IF_ERROR(CheckValidationData(newest));
  continuation.epochs = EpochsOf(newest);
  if (newest.has_fingerprint()) {
    continuation.fingerprint = std::make_shared<v1::NumericFingerprint>(newest.fingerprint());
  }
  const bool places_alike = std::ranges::none_of(continuation.changes, [](const KeyChange& change) {
    return change.key == "servers" ||
           (change.key.starts_with("strategy.") && change.key != "strategy.rebalance");
  });
  if (places_alike) continuation.layout = std::make_shared<v1::Layout>(newest.layout());
  const std::vector<KeyChange> at_end = AtEpochEnd(continuation.changes);
  const v1::EpochPlan now = plan_->epoch_plan();
  if (plan_->schedule().stream != nullptr && continuation.epochs.batch_size() != now.batch_size()) {
    return WithExitCode(
        FailedPrecondition("the files of the stream were cut into batches of {} records, so "
                           "`data.batch_size` cannot be {}: restore it, or give another checkpoint "
                           "directory. With `init_from: {}` the job starts there from the weights",
                           continuation.epochs.batch_size(), now.batch_size(), PathOf(newest)),
        ExitCode::kConfig);
  }
  const bool same_steps = HaveSameSteps(continuation.epochs, now);
  if (same_steps && at_end.empty()) return continuation;
  if (!IsAtEpochEnd(newest)) {
    if (same_steps) return InsideEpoch(newest, at_end);
    return Continuation{.changes = std::move(continuation.changes), .only_weights = true};
  }
  if (same_steps) return continuation;
  continuation.epochs = plan_->epoch_plan();
  continuation.epochs.set_first_epoch(newest.epoch());
  continuation.epochs.set_first_place(newest.step());
  return continuation;
}

absl::Status JobContinuation::Check(const v1::Manifest& manifest) const {
  COHORT_ASSIGN_OR_RETURN(const std::vector<KeyChange> changes, CompareKeys(manifest));
  const std::vector<KeyChange> from_weights = Only(changes, {Change::kFromWeights});
  if (!from_weights.empty()) return OtherJob(manifest, from_weights);
  const v1::EpochPlan now = plan_->epoch_plan();
  const v1::EpochPlan then = EpochsOf(manifest);
  const std::vector<KeyChange> at_end = AtEpochEnd(changes);
  const bool same_places = HaveSameSteps(then, now) && then.first_epoch() == now.first_epoch() &&
                           then.first_place() == now.first_place();
  if (same_places && (at_end.empty() || IsAtEpochEnd(manifest))) return absl::OkStatus();
  const bool at_change = IsAtEpochEnd(manifest) && manifest.epoch() == now.first_epoch() &&
                         manifest.step() == now.first_place();
  return at_change ? absl::OkStatus() : InsideEpoch(manifest, at_end);
}

absl::StatusOr<std::vector<KeyChange>> JobContinuation::CompareKeys(
    const v1::Manifest& manifest) const {
  const std::optional<JobKeys> then = KeysOfManifest(manifest);
  if (!then.has_value()) {
    if (manifest.job() == plan_->identity()) return std::vector<KeyChange>();
    return OtherJob(manifest, {});
  }
  JobKeys now = plan_->keys();
  if (then->contains("servers")) AddServers(servers_, &now);
  std::vector<KeyChange> changes = ChangesOf(*then, now);
  std::vector<KeyChange> others = Only(changes, {Change::kOtherJob});
  if (!others.empty()) return OtherJob(manifest, others);
  return changes;
}

absl::Status JobContinuation::OtherJob(const v1::Manifest& manifest,
                                       const std::vector<KeyChange>& changes) const {
  if (changes.empty()) {
    return WithExitCode(
        FailedPrecondition("{} holds checkpoints of another job, {}; this one is {}: give another "
                           "checkpoint directory",
                           directory_, manifest.job(), plan_->identity()),
        ExitCode::kConfig);
  }
  return WithExitCode(
      FailedPrecondition("{} holds checkpoints of another job. What differs, as it was -> as it is "
                         "now: {}. Restore the former values, or give another checkpoint "
                         "directory. With `init_from: {}` the job starts there from the weights of "
                         "the newest checkpoint",
                         directory_, TextOf(changes), PathOf(manifest)),
      ExitCode::kConfig);
}

// ------------------------------------------------------------------ epochs

v1::EpochPlan JobContinuation::EpochsOf(const v1::Manifest& manifest) const {
  if (manifest.has_epochs()) return manifest.epochs();
  // An older version wrote it. Its epochs began at place 0.
  v1::EpochPlan epochs = plan_->epoch_plan();
  epochs.set_first_epoch(0);
  epochs.set_first_place(0);
  if (!manifest.has_job_spec()) return epochs;
  JobFile then;
  then.spec = manifest.job_spec();
  const auto steps =
      StepsPerEpoch(then, manifest.has_train_data() ? manifest.train_data().records()
                                                    : plan_->schedule().train_records);
  epochs.set_batch_size(then.spec.data().batch_size());
  epochs.set_steps_per_epoch(steps.value_or(0));
  return epochs;
}

bool JobContinuation::IsAtEpochEnd(const v1::Manifest& manifest) const {
  const v1::EpochPlan epochs = EpochsOf(manifest);
  if (manifest.epoch() < epochs.first_epoch() || manifest.chief().pending_size() > 0) return false;
  const uint64_t begin =
      epochs.first_place() + (manifest.epoch() - epochs.first_epoch()) * epochs.steps_per_epoch();
  return manifest.step() == begin;
}

absl::Status JobContinuation::InsideEpoch(const v1::Manifest& manifest,
                                          std::vector<KeyChange> changes) const {
  const v1::EpochPlan then = EpochsOf(manifest);
  const v1::EpochPlan now = plan_->epoch_plan();
  if (changes.empty()) {
    changes.push_back({.key = "fit.steps_per_epoch",
                       .then = fmt::format("{}", then.steps_per_epoch()),
                       .now = fmt::format("{}", now.steps_per_epoch())});
  }
  return WithExitCode(
      FailedPrecondition(
          "the job cannot continue from {}, at step {} of epoch {}: {} may change only at the end "
          "of an epoch. Restore the former value, end the job at the end of an epoch (`fit: "
          "{{epochs: "
          "{}}}`), and then change the value{}",
          PathOf(manifest), manifest.step(), manifest.epoch() + 1, TextOf(changes),
          manifest.epoch() + 1, EpochEndHint()),
      ExitCode::kConfig);
}

std::string JobContinuation::EpochEndHint() const {
  const auto entries = ListCheckpoints(directory_);
  if (!entries.ok()) return "";
  for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry) {
    const auto manifest = ReadManifest(entry->manifest);
    if (!manifest.ok() || manifest->epoch() == 0 || !IsAtEpochEnd(*manifest)) continue;
    return fmt::format(
        "; or copy {}, which was taken at the end of epoch {}, into another checkpoint directory, "
        "and continue there",
        entry->directory, manifest->epoch());
  }
  return "";
}

// ------------------------------------------------------------------ data

// A job whose training data was replaced cannot continue: an epoch would skip other records than it
// has used.
absl::Status JobContinuation::CheckTrainingData(const v1::Manifest& manifest) const {
  const v1::JobSpec& now = plan_->spec();
  const v1::JobSpec then = SpecOfManifest(manifest);
  const bool same_data =
      then.name() == now.name() && ReadTheSame(then.data().train(), now.data().train());
  if (!manifest.has_train_data() || !same_data) return absl::OkStatus();
  const std::string difference =
      DifferenceOf({plan_->train_data(), "now"}, {manifest.train_data(), "then"});
  if (difference.empty()) return absl::OkStatus();
  return InvalidArgument(
      "{} holds checkpoints of this job over other data: {}; put back what was there then, or give "
      "another checkpoint directory; with `init_from: {}` the job starts there from the weights",
      directory_, difference, PathOf(manifest));
}

// A job whose validation data was replaced cannot continue either: its figures would look like
// those of one set. The user may choose a set with another name.
absl::Status JobContinuation::CheckValidationData(const v1::Manifest& manifest) const {
  const v1::DataSpec& now = plan_->spec().data();
  const v1::DataSpec then = SpecOfManifest(manifest).data();
  if (!manifest.has_validation_data() || !now.has_validation() ||
      !ReadTheSame(then.validation(), now.validation())) {
    return absl::OkStatus();
  }
  const std::string difference =
      DifferenceOf({plan_->validation_data(), "now"}, {manifest.validation_data(), "then"});
  if (difference.empty()) return absl::OkStatus();
  return InvalidArgument(
      "{} holds checkpoints of this job over other validation data: {}; put back what was there "
      "then, or give what is there now another name in the job file, or give another checkpoint "
      "directory",
      directory_, difference);
}

}  // namespace cohort
