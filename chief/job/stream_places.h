#ifndef COHORT_CHIEF_JOB_STREAM_PLACES_H_
#define COHORT_CHIEF_JOB_STREAM_PLACES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chief/core/closure_spec.h"
#include "proto/data.pb.h"

namespace cohort {

// Which part of which file each place of a stream reads (visitation stream). Files have their
// places in the order in which the chief has taken them. A block of a file has one place for each
// batch; the last batch of a file may be short. Only the job's thread uses it.
class StreamPlaces {
 public:
  explicit StreamPlaces(uint64_t batch_size) : batch_size_(batch_size) {}

  // Adds a file that comes after all others. A file that was added already changes nothing.
  void Add(const v1::StreamFile& file);
  // Places below `end` belong to files that are not known any more.
  void Extend(uint64_t end) { end_ = std::max(end_, end); }
  // Forgets the files before this place: no checkpoint needs them.
  void DropBefore(uint64_t place);
  // The first place that has no batch yet.
  uint64_t end() const { return end_; }
  // Returns the batch of a place, which is below end(). The file of a place that was dropped from
  // the list is not known: then the lease names no part.
  LeaseRange LeaseAt(uint64_t place) const;

 private:
  // A block of a file.
  struct Block {
    uint64_t first_place = 0;
    uint64_t number = 0;
    uint64_t records = 0;
    std::shared_ptr<const v1::FilePart> part;
  };
  const uint64_t batch_size_;
  uint64_t end_ = 0;
  std::vector<Block> blocks_;  // by place
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_STREAM_PLACES_H_
