#ifndef COHORT_CHIEF_JOB_JOB_SCHEDULE_H_
#define COHORT_CHIEF_JOB_JOB_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "chief/api/closure_request.h"

namespace cohort {

// The steps of a job: which place belongs to which epoch, and which records each closure reads.
// Places number the training batches of the whole job from 0. The schedule is plain arithmetic, so
// a restarted chief computes the same one.
struct JobSchedule {
  uint64_t epochs = 0;
  uint64_t steps_per_epoch = 0;
  uint32_t steps_per_closure = 1;
  uint64_t batch_size = 0;
  uint64_t train_records = 0;
  bool exactly_once = true;  // closures have leases
  // Closures validate after every `validation_every_epochs` epochs and after the last epoch.
  uint64_t validation_records = 0;       // 0: there is no validation set
  uint64_t validation_every_epochs = 0;  // 0: closures do not validate

  uint64_t steps() const { return epochs * steps_per_epoch; }
  uint64_t EpochEndOf(uint64_t place) const {
    return (place / steps_per_epoch + 1) * steps_per_epoch;
  }
  // Returns the steps of the closure at a place: steps_per_closure, fewer at the end of an epoch.
  uint32_t StepsAt(uint64_t place) const;
  // Returns the records of each step of the closure at a place; none if closures have no leases.
  std::vector<LeaseRange> LeasesAt(uint64_t place, uint32_t steps) const;
  // Returns the batches of one validation. They contain each validation record once.
  std::vector<LeaseRange> ValidationBatches() const;
  // True if a validation follows after `finished_epochs`.
  bool ValidatesAfter(uint64_t finished_epochs) const;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_SCHEDULE_H_
