#include "chief/job/epoch_runner.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"

namespace cohort {

void EpochRunner::TakeUnfinished() {
  unfinished_ = cluster_->Unfinished();
  next_unfinished_ = 0;
}

absl::Status EpochRunner::Run(uint64_t epoch, const OnProgress& on_progress) {
  const TimePoint began = clock_->Now();
  const CoordinatorState before = cluster_->state();
  const int64_t fsyncs_before = FsyncCount();
  const absl::Status status = ScheduleUntilDone(epoch, on_progress);
  const CoordinatorState after = cluster_->state();
  const double seconds = ToSeconds(clock_->Now() - began);
  const uint64_t steps = after.steps > before.steps ? after.steps - before.steps : 0;
  figures_.steps += steps;
  figures_.seconds += seconds;
  figures_.fsyncs += FsyncCount() - fsyncs_before;
  if (seconds > 0 && steps > 0) figures_.last_rate = static_cast<double>(steps) / seconds;
  return status;
}

absl::Status EpochRunner::ScheduleUntilDone(uint64_t epoch, const OnProgress& on_progress) {
  while (true) {
    if (options_.update) COHORT_RETURN_IF_ERROR(options_.update());
    const uint64_t epoch_end = schedule_->EndOf(epoch);  // a stream may have ended
    COHORT_RETURN_IF_ERROR(ScheduleMore(std::min(epoch_end, schedule_->KnownEnd())));
    COHORT_ASSIGN_OR_RETURN(const bool idle, cluster_->JoinFor(options_.poll_seconds));
    const CoordinatorState state = cluster_->state();
    COHORT_RETURN_IF_ERROR(on_progress(state));
    const bool all_scheduled =
        next_unfinished_ == unfinished_.size() && state.next_place >= epoch_end;
    if (idle && all_scheduled) return absl::OkStatus();
  }
}

absl::Status EpochRunner::ScheduleMore(uint64_t epoch_end) {
  const CoordinatorState state = cluster_->state();
  uint64_t room = state.queued < options_.window ? options_.window - state.queued : 0;
  for (; room > 0 && next_unfinished_ < unfinished_.size(); --room) {
    const UnfinishedClosure& next = unfinished_[next_unfinished_++];
    COHORT_RETURN_IF_ERROR(ScheduleAt(next.place, next.steps));
  }
  for (uint64_t place = state.next_place; room > 0 && place < epoch_end; --room) {
    const uint32_t steps = schedule_->StepsAt(place);
    COHORT_RETURN_IF_ERROR(ScheduleAt(place, steps));
    place += steps;
  }
  return absl::OkStatus();
}

absl::Status EpochRunner::ScheduleAt(uint64_t place, uint32_t steps) {
  ClosureSpec spec{.step = options_.step,
                   .dataset = options_.dataset,
                   .leases = schedule_->LeasesAt(place, steps),
                   .steps = steps,
                   .place = JobPlace{place, schedule_->EpochEndOf(place)}};
  const bool knows =
      schedule_->stream == nullptr ||
      std::ranges::all_of(spec.leases, [](const LeaseRange& l) { return l.part != nullptr; });
  if (!knows) {
    return FailedPrecondition(
        "the list of the stream's files lacks the records of step {}: their file was removed "
        "before a checkpoint had its records. Start again from the weights of the newest "
        "checkpoint (`init_from`), in another checkpoint directory",
        place);
  }
  return cluster_->Schedule(std::move(spec)).status();
}

}  // namespace cohort
