#include "chief/job/best_keeper.h"

#include <utility>

namespace cohort {
namespace {

// Returns nullopt if the manifest has unfinished closures: it is in the middle of an epoch.
std::optional<BestKeeper::State> StateOf(const v1::Manifest& manifest) {
  if (manifest.chief().pending_size() > 0) return std::nullopt;
  return BestKeeper::State{manifest.timeline(), manifest.epoch(), manifest.step()};
}

bool SamePlace(const std::optional<BestKeeper::State>& a, const BestKeeper::State& b) {
  return a.has_value() && a->epoch == b.epoch && a->place == b.place;
}

}  // namespace

void BestKeeper::ContinueFrom(const v1::Manifest* from, std::optional<v1::BestCheckpoint> best) {
  MutexLock lock(&mu_);
  validated_.reset();
  best_ = std::move(best);
  held_ = from != nullptr ? StateOf(*from) : std::nullopt;
}

bool BestKeeper::Validated(const State& state, double value) {
  MutexLock lock(&mu_);
  validated_ = state;
  value_ = value;
  return IsBetter(value, state);
}

void BestKeeper::Complete(v1::Manifest* manifest) const {
  MutexLock lock(&mu_);
  if (best_.has_value()) *manifest->mutable_best() = *best_;
  const auto state = StateOf(*manifest);
  if (!state.has_value() || !SamePlace(validated_, *state) ||
      validated_->timeline != state->timeline) {
    return;
  }
  manifest->mutable_validated()->set_metric(rule_.metric);
  manifest->mutable_validated()->set_value(value_);
  if (IsBetter(value_, *state)) *manifest->mutable_best() = AsBest(*manifest, rule_);
}

bool BestKeeper::IsBetter(double value, const State& state) const {
  return state.epoch >= rule_.first_epoch &&
         rule_.Better(value, best_.has_value() ? &*best_ : nullptr);
}

void BestKeeper::Committed(const v1::Manifest& manifest) {
  MutexLock lock(&mu_);
  held_ = StateOf(manifest);
  if (manifest.has_best()) best_ = manifest.best();
}

bool BestKeeper::IsBest(const State& state) const {
  MutexLock lock(&mu_);
  return SamePlace(validated_, state) && validated_->timeline == state.timeline &&
         IsBetter(value_, state);
}

bool BestKeeper::Holds(const State& state) const {
  MutexLock lock(&mu_);
  return SamePlace(held_, state);
}

std::optional<v1::BestCheckpoint> BestKeeper::best() const {
  MutexLock lock(&mu_);
  return best_;
}

}  // namespace cohort
