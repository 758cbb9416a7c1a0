#ifndef COHORT_CHIEF_JOB_JOB_SCHEDULE_H_
#define COHORT_CHIEF_JOB_JOB_SCHEDULE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chief/core/closure_spec.h"
#include "chief/job/stream_places.h"

namespace cohort {

// The steps of a job: which place belongs to which epoch, and which records each closure reads.
// Places number the training batches of the whole job from 0. The schedule is plain arithmetic, so
// a restarted chief computes the same one. The epochs of a stream are its windows: as many steps
// each, of the places that the list of its files has (StreamLog).
struct JobSchedule {
  uint64_t epochs = 0;
  uint64_t steps_per_epoch = 0;
  uint32_t steps_per_closure = 1;
  uint64_t batch_size = 0;
  uint64_t train_records = 0;
  bool exactly_once = true;  // closures have leases
  // Closures validate after every `validation_every_epochs` epochs and after the last epoch.
  uint64_t validation_records = 0;          // 0: there is no validation set
  uint64_t validation_every_epochs = 0;     // 0: closures do not validate
  std::vector<uint64_t> validation_epochs;  // instead, if there are any: counted from 1
  uint64_t validation_steps = 0;            // the most batches of a validation; 0: all
  uint64_t max_steps = 0;                   // the job ends there, even inside an epoch; 0: nowhere
  // A job that continued with another batch size has other steps per epoch from this epoch on,
  // which begins at this place.
  uint64_t first_epoch = 0;
  uint64_t first_place = 0;

  // Visitation stream: the places that are known so far; null for other data.
  std::shared_ptr<StreamPlaces> stream;
  uint32_t closures_per_step = 0;  // sync and bounded_staleness; 0: async

  // Returns the steps of the whole job.
  uint64_t steps() const { return Limited(BeginOf(std::max(epochs, first_epoch))); }
  // Returns the first place of an epoch, which is not before first_epoch.
  uint64_t BeginOf(uint64_t epoch) const {
    return first_place + (epoch - first_epoch) * steps_per_epoch;
  }
  // Returns the epoch of a place, which is not before first_place.
  uint64_t EpochOf(uint64_t place) const {
    return first_epoch + (place - first_place) / steps_per_epoch;
  }
  // Returns where the training of an epoch ends: before its last place if the job ends there.
  uint64_t EndOf(uint64_t epoch) const { return Limited(BeginOf(epoch + 1)); }
  bool EndsInside(uint64_t epoch) const { return EndOf(epoch) < BeginOf(epoch + 1); }
  // Returns the end of the places that may be scheduled with this one: that of its epoch, or of the
  // known places of a stream.
  uint64_t EpochEndOf(uint64_t place) const { return std::min(EndOf(EpochOf(place)), KnownEnd()); }
  // Returns the end of the places that can be scheduled now. In a stream which has not ended they
  // make whole closures and whole synchronous steps: the rest waits for the next file.
  uint64_t KnownEnd() const;
  // Returns the steps of the closure at a place: steps_per_closure, fewer at the end of an epoch.
  uint32_t StepsAt(uint64_t place) const;
  // Returns the records of each step of the closure at a place; none if closures have no leases.
  std::vector<LeaseRange> LeasesAt(uint64_t place, uint32_t steps) const;
  // Returns the batches of one validation. They contain each validation record once.
  std::vector<LeaseRange> ValidationBatches() const;
  // True if a validation follows after `finished_epochs`.
  bool ValidatesAfter(uint64_t finished_epochs) const;
  // True if closures validate at the end of epochs.
  bool validates() const { return validation_records > 0 && validation_every_epochs > 0; }
  // "epoch 2/5" (counted from 1); of a stream "window 2".
  std::string NameOf(uint64_t epoch) const;
  // Returns the place, or the end of the job if that comes before.
  uint64_t Limited(uint64_t place) const {
    return max_steps > 0 ? std::min(place, max_steps) : place;
  }
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_SCHEDULE_H_
