#include "chief/job/job_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

// The memory of the mean from which the time left is computed.
constexpr double kPaceSeconds = 30;

}  // namespace

Scalars ValuesOf(const std::vector<MetricState>& metrics) {
  Scalars values;
  for (const MetricState& metric : metrics) values.emplace_back(metric.name, metric.Value());
  return values;
}

double JobProgress::RateSince(const Mark& mark, const CoordinatorState& state) const {
  const double seconds = ToSeconds(clock_->Now() - mark.time);
  if (seconds <= 0 || state.steps < mark.steps) return 0;
  return static_cast<double>(state.steps - mark.steps) / seconds;
}

void JobProgress::Restart(const CoordinatorState& state) {
  last_record_ = last_line_ = last_rate_ = last_pace_ = MarkOf(state);
  recorded_steps_ = state.counters;
}

Scalars JobProgress::TakeFigures(const CoordinatorState& state) {
  const CoreCounters& counters = state.counters;
  Scalars figures;
  const auto& set =
      state.learning_rate.has_value() ? state.learning_rate : options_.first_learning_rate;
  if (set.has_value()) {
    figures.emplace_back("learning_rate", *set);
  } else if (options_.learning_rate) {
    figures.emplace_back("learning_rate", options_.learning_rate(state.iteration));
  }
  const EpochStaleness& staleness = counters.epoch_staleness;
  if (staleness.sections > 0) {
    figures.emplace_back("staleness/mean", staleness.mean());
    figures.emplace_back("staleness/max", static_cast<double>(staleness.max));
  }
  const StepCounters before = std::exchange(recorded_steps_, counters);
  if (counters.steps_closed <= before.steps_closed) return figures;
  const auto steps = static_cast<double>(counters.steps_closed - before.steps_closed);
  figures.emplace_back("sync/dropped", static_cast<double>(counters.dropped - before.dropped));
  figures.emplace_back("sync/wait_seconds_per_step",
                       static_cast<double>(counters.waited_us - before.waited_us) / 1e6 / steps);
  return figures;
}

void JobProgress::Update(const CoordinatorState& state, uint64_t epoch) {
  WarnIfNotFinite(state);
  MeasureRate(state);
  MeasurePace(state);
  const bool due = options_.record_every_steps > 0 &&
                   state.steps >= last_record_.steps + options_.record_every_steps;
  if (due && !state.metrics.empty()) {
    metrics_->Add({.set = "train",
                   .kind = "step",
                   .epoch = epoch + 1,
                   .step = state.steps,
                   .metrics = ValuesOf(state.metrics),
                   .figures = TakeFigures(state),
                   .steps_per_second = RateSince(last_record_, state)});
    last_record_ = MarkOf(state);
  }
  console_->ShowIfDue([&] {
    const double rate = RateSince(std::exchange(last_line_, MarkOf(state)), state);
    return ProgressOf(state, epoch, rate);
  });
}

void JobProgress::MeasureRate(const CoordinatorState& state) {
  const double seconds = ToSeconds(clock_->Now() - last_rate_.time);
  // Slow steps need a longer time to be counted.
  const double least = state.steps > last_rate_.steps ? 1 : 30;
  if (seconds < least) return;
  console_->SetStepsPerSecond(RateSince(last_rate_, state));
  last_rate_ = MarkOf(state);
}

void JobProgress::MeasurePace(const CoordinatorState& state) {
  const double seconds = ToSeconds(clock_->Now() - last_pace_.time);
  if (seconds < 1 || state.steps <= last_pace_.steps) return;
  const double weight = pace_ == 0 ? 1 : 1 - std::exp(-seconds / kPaceSeconds);
  pace_ += weight * (RateSince(last_pace_, state) - pace_);
  last_pace_ = MarkOf(state);
  console_->SetPace(pace_);
}

void JobProgress::EndEpoch(const CoordinatorState& state, uint64_t epoch, double steps_per_second) {
  metrics_->Add({.set = "train",
                 .kind = "epoch",
                 .epoch = epoch + 1,
                 .step = state.steps,
                 .metrics = ValuesOf(state.metrics),
                 .figures = TakeFigures(state),
                 .steps_per_second = steps_per_second});
  console_->Print(FormatProgress(ProgressOf(state, epoch, steps_per_second)));
  last_line_ = MarkOf(state);
}

Progress JobProgress::ProgressOf(const CoordinatorState& state, uint64_t epoch, double rate) const {
  const uint64_t epoch_begin = schedule_->BeginOf(epoch);
  const uint64_t done = state.steps - std::min(state.steps, epoch_begin);
  Progress progress;
  progress.epoch = epoch + 1;
  progress.epochs = schedule_->stream != nullptr ? 0 : schedule_->epochs;
  progress.step = std::min(done, schedule_->steps_per_epoch);
  progress.steps = schedule_->steps_per_epoch;
  progress.steps_per_second = rate;
  progress.metrics = ValuesOf(state.metrics);
  const uint64_t all = schedule_->steps();
  const bool endless = schedule_->stream != nullptr && schedule_->max_steps == 0;
  if (pace_ > 0 && state.steps < all && !endless) {
    progress.seconds_left = static_cast<double>(all - state.steps) / pace_;
  }
  return progress;
}

// A metric that is NaN does not mean that the training has failed.
void JobProgress::WarnOfMetrics(const CoordinatorState& state) {
  if (warned_of_metric_) return;
  const auto wrong = std::ranges::find_if(state.metrics, [](const MetricState& metric) {
    return metric.name != kLossMetric && !metric.finite();
  });
  if (wrong == state.metrics.end()) return;
  warned_of_metric_ = true;
  log_->Warning("metric_not_finite", {{"metric", wrong->name}, {"step", state.steps}});
  console_->Print(
      fmt::format("warning: the metric {} is infinite or NaN at step {}. The loss does "
                  "not depend on it; training continues",
                  wrong->name, state.steps));
}

void JobProgress::WarnIfNotFinite(const CoordinatorState& state) {
  if (state.counters.not_finite == 0) return WarnOfMetrics(state);
  if (warned_not_finite_) return;
  warned_not_finite_ = true;
  const uint64_t step = state.counters.first_not_finite_step;
  const uint64_t first = schedule_->first_place;
  const uint64_t epoch = schedule_->EpochOf(std::max(step, first + 1) - 1) + 1;
  log_->Warning("not_finite", {{"metric", kLossMetric}, {"epoch", epoch}, {"step", step}});
  console_->Print(fmt::format(
      "warning: the loss is infinite or NaN at step {}, epoch {}. The weights will probably stay "
      "so; training continues. Try a smaller learning rate, and look for NaN and very large values "
      "in the data",
      step, epoch));
}

}  // namespace cohort
