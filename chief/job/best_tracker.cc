#include "chief/job/best_tracker.h"

#include <algorithm>
#include <string_view>

#include "common/base/status.h"

namespace cohort {
namespace {

// Keras' prefix of the names of validation metrics.
constexpr std::string_view kPrefix = "val_";

}  // namespace

void BestTracker::LogUnknown(const absl::Status& why) {
  // This is not a reason to stop training.
  log_->Failure(LogLevel::kWarning, "best_checkpoint_unknown", why);
}

std::optional<v1::Manifest> BestTracker::LastManifest(const std::string& from, uint64_t timeline) {
  auto manifest = catalog_->Read(from);
  if (manifest.ok()) return *std::move(manifest);
  LogUnknown(manifest.status());
  // If it was deleted, an older checkpoint of its timeline names the previous best one.
  auto older = catalog_->NewestManifest();
  if (!older.ok() || !older->has_value() || (*older)->timeline() != timeline) return std::nullopt;
  return *std::move(older);
}

bool BestTracker::FindAgain(const std::string& from, uint64_t timeline) {
  due_ = false;
  const std::optional<v1::Manifest> last =
      from.empty() ? std::nullopt : LastManifest(from, timeline);
  if (!last.has_value()) {
    keeper_.ContinueFrom(nullptr, std::nullopt);
    return false;
  }
  const auto found = catalog_->BestUpTo(
      *last, keeper_.rule(), [this](const std::string& path, const absl::Status& why) {
        log_->Failure(LogLevel::kWarning, "best_checkpoint_refused", Annotate(why, path));
        console_->Print(fmt::format("warning: {} was the best checkpoint and cannot be used: {}",
                                    path, std::string(why.message())));
      });
  if (!found.ok()) LogUnknown(found.status());
  const auto best = found.ok() ? *found : std::nullopt;
  keeper_.ContinueFrom(&*last, best);
  announced_ = best.has_value() ? best->checkpoint() : "";
  return last->has_validated();
}

void BestTracker::Judge(const std::vector<MetricState>& validation, uint64_t finished_epochs,
                        const CoordinatorState& state, const std::string& newest_checkpoint) {
  due_ = false;
  const std::string_view wanted = std::string_view(keeper_.rule().metric).substr(kPrefix.size());
  const auto found = std::find_if(validation.begin(), validation.end(),
                                  [&](const MetricState& metric) { return metric.name == wanted; });
  if (found == validation.end()) return;
  if (BestIsGone()) {
    console_->Print(fmt::format("warning: {} was the best checkpoint and does not exist any more",
                                catalog_->PathOf(keeper_.best()->checkpoint())));
    (void)FindAgain(newest_checkpoint, state.timeline);
  }
  due_ = keeper_.Validated({state.timeline, finished_epochs, state.next_place}, found->Value());
}

bool BestTracker::BestIsGone() const {
  const auto best = keeper_.best();
  return best.has_value() && catalog_->IsGone(best->checkpoint());
}

void BestTracker::Announce() {
  const auto best = keeper_.best();
  if (!best.has_value()) return;
  if (std::exchange(announced_, best->checkpoint()) == best->checkpoint()) return;
  log_->Info("best_checkpoint", {{"path", catalog_->PathOf(best->checkpoint())},
                                 {"metric", best->metric()},
                                 {"value", best->value()}});
  console_->Print(
      fmt::format("best checkpoint so far: {} ({})", best->checkpoint(), BestText(*best)));
}

}  // namespace cohort
