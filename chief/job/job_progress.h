#ifndef COHORT_CHIEF_JOB_JOB_PROGRESS_H_
#define COHORT_CHIEF_JOB_JOB_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "chief/api/coordinator_state.h"
#include "chief/job/job_console.h"
#include "chief/job/job_schedule.h"
#include "chief/job/metrics_log.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace cohort {

// Shows the progress of the training: the progress line on the console, step and epoch records in
// the metrics log, one warning if the loss is not finite. All output counts epochs from 1. One
// thread at a time may use it.
class JobProgress {
 public:
  struct Options {
    uint64_t record_every_steps = 0;  // between two step records; 0: no step records
    // The learning rate of an iteration by the optimizer's schedule, for the records. Null: it has
    // none, and records have the rates that were set.
    std::function<double(uint64_t)> learning_rate;
    // The optimizer's own rate, if callbacks change it; nullopt: they do not.
    std::optional<double> first_learning_rate;
  };
  JobProgress(const JobSchedule* schedule, Options options, const Clock* clock, Logger* log,
              JobConsole* console, MetricsLog* metrics)
      : schedule_(schedule),
        options_(std::move(options)),
        clock_(clock),
        log_(log),
        console_(console),
        metrics_(metrics) {}

  // Measures rates from now: called at the start of training and after a restore.
  void Restart(const CoordinatorState& state);
  // Shows the progress while `epoch` (counted from 0) is trained.
  void Update(const CoordinatorState& state, uint64_t epoch);
  // Records that `epoch` (counted from 0) is complete with the metrics of `state`.
  void EndEpoch(const CoordinatorState& state, uint64_t epoch, double steps_per_second);

 private:
  // A moment from which a rate is measured.
  struct Mark {
    uint64_t steps = 0;
    TimePoint time;
  };

  // The figures of the job for a record: the learning rate if it changes, staleness over the epoch
  // so far, and of synchronous steps what has happened since the last record.
  Scalars TakeFigures(const CoordinatorState& state);
  Mark MarkOf(const CoordinatorState& state) const { return {state.steps, clock_->Now()}; }
  // Steps per second since the mark; 0: unknown.
  double RateSince(const Mark& mark, const CoordinatorState& state) const;
  Progress ProgressOf(const CoordinatorState& state, uint64_t epoch, double rate) const;
  // Notes how fast the job makes progress, about once a second. The mean gives the last half minute
  // most weight, and contains pauses, such as validation.
  void MeasurePace(const CoordinatorState& state);
  // Tells the console the speed, about once a second.
  void MeasureRate(const CoordinatorState& state);
  // Warns once. Training continues, as it does in Keras.
  void WarnIfNotFinite(const CoordinatorState& state);
  void WarnOfMetrics(const CoordinatorState& state);

  const JobSchedule* const schedule_;
  const Options options_;
  const Clock* const clock_;
  Logger* const log_;
  JobConsole* const console_;
  MetricsLog* const metrics_;

  Mark last_record_;
  Mark last_line_;
  StepCounters recorded_steps_;  // at the last record
  Mark last_rate_;
  Mark last_pace_;
  double pace_ = 0;  // steps per second; 0: unknown
  bool warned_not_finite_ = false;
  bool warned_of_metric_ = false;
};

// Returns the values of the metrics, by name.
Scalars ValuesOf(const std::vector<MetricState>& metrics);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_PROGRESS_H_
