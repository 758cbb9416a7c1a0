// How the job runner keeps the best checkpoint (`checkpoint.keep_best`); best_keeper.h says what
// that is.
//
//   1. FindBestAgain, at the start and after a restore: of the checkpoint that the cluster goes on
//   from.
//   2. JudgeValidation, at the end of each validation: is what the cluster has better?
//   3. CheckpointEpoch, or the last checkpoint: a cut, whose manifest says so.
//   4. TellBest.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "chief/job/job_runner.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"

namespace cohort {
namespace {

constexpr std::string_view kPrefix = "val_";  // of what a validation reports, as Keras names it

}  // namespace

void JobRunner::FindBestAgain() {
  best_due_ = false;
  if (best_ == nullptr) return;
  // A figure that no manifest says must be found again.
  const uint64_t validated = std::exchange(validated_epochs_, 0);
  const std::string from = cluster_->newest_checkpoint();
  if (from.empty()) return best_->GoOnFrom(nullptr, std::nullopt);
  Do("looking for the best checkpoint in " + checkpoint_dir_);
  const auto unknown = [this](const absl::Status& why) {  // no reason not to train
    options_.log->Failure(LogLevel::kWarning, "best_checkpoint_unknown", why);
  };
  auto manifest = ReadManifest(JoinPath(from, kManifestName));
  if (!manifest.ok()) {
    unknown(manifest.status());
    // Where it was deleted, what is left of its timeline knows the best before it.
    v1::Manifest older;
    const auto left = NewestReadable(checkpoint_dir_, &older);
    if (!left.ok() || !left->has_value() || older.timeline() != cluster_->state().timeline) {
      return best_->GoOnFrom(nullptr, std::nullopt);
    }
    manifest = std::move(older);
  }
  const auto found = BestOf(
      checkpoint_dir_, *manifest, best_->rule(),
      [this](const std::string& path, const absl::Status& why) {
        options_.log->Failure(LogLevel::kWarning, "best_checkpoint_refused", Annotate(why, path));
        Say(fmt::format("warning: {} was the best checkpoint, and is refused: {}", path,
                        std::string(why.message())));
      });
  if (manifest->has_validated()) validated_epochs_ = validated;
  if (!found.ok()) unknown(found.status());
  const auto best = found.ok() ? *found : std::nullopt;
  best_->GoOnFrom(&*manifest, best);
  told_best_ = best.has_value() ? best->checkpoint() : "";
}

void JobRunner::JudgeValidation(uint64_t epoch) {
  best_due_ = false;
  if (best_ == nullptr) return;
  const std::string_view wanted = std::string_view(best_->rule().metric).substr(kPrefix.size());
  const auto found = std::find_if(report_.validation.begin(), report_.validation.end(),
                                  [&](const MetricTotal& metric) { return metric.name == wanted; });
  if (found == report_.validation.end() || found->count == 0) return;
  if (BestIsGone()) {
    Say(fmt::format("warning: {} was the best checkpoint, and is not there any more",
                    JoinPath(checkpoint_dir_, best_->best()->checkpoint())));
    FindBestAgain();
    Do("training");
  }
  const CoordinatorState state = cluster_->state();
  best_due_ = best_->Validated({state.timeline, epoch, state.next_place}, found->mean());
}

// Deleted by somebody: nothing that comes is to be compared with it.
bool JobRunner::BestIsGone() const {
  const auto best = best_->best();
  std::error_code unknown;
  return best.has_value() &&
         !std::filesystem::exists(JoinPath(checkpoint_dir_, best->checkpoint()), unknown) &&
         !unknown;
}

bool JobRunner::HeldByCheckpoint(uint64_t epoch) const {
  return best_ != nullptr && best_->Holds({0, epoch, cluster_->state().next_place});
}

void JobRunner::TellBest() {
  const auto best = best_ != nullptr ? best_->best() : std::nullopt;
  report_.best_checkpoint.clear();
  if (!best.has_value()) return;
  report_.best_checkpoint = JoinPath(checkpoint_dir_, best->checkpoint());
  report_.best_text = BestText(*best);
  if (std::exchange(told_best_, best->checkpoint()) == best->checkpoint()) return;
  options_.log->Info(
      "best_checkpoint",
      {{"path", report_.best_checkpoint}, {"metric", best->metric()}, {"value", best->value()}});
  Say(fmt::format("best checkpoint so far: {} ({})", best->checkpoint(), report_.best_text));
}

}  // namespace cohort
