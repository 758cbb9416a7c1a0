#ifndef COHORT_COMMON_DATA_INDEX_STREAM_H_
#define COHORT_COMMON_DATA_INDEX_STREAM_H_

#include <cstdint>
#include <vector>

#include "common/data/dataset.h"

namespace cohort {

// The order of visitation independent: shuffle, batch, repeat, in that order, as record indices. It
// is computed from counters, so a stream that begins later costs nothing extra. The exception is a
// shuffle buffer, which must be refilled: then each record of the current epoch that was already
// returned costs one random number.
class IndexStream {
 public:
  struct Options {
    uint64_t records = 0;
    uint64_t batch_size = 0;
    bool shuffle = false;
    uint64_t shuffle_buffer = 0;  // 0: as large as the dataset
    uint64_t epochs = 0;          // 0: no end
    bool drop_remainder = false;
    uint64_t key = 0;    // for the random numbers
    uint64_t begin = 0;  // batches that were already returned: the stream continues after them
  };
  explicit IndexStream(const Options& options);

  // Sets the records of the next batch. Returns false at the end of the last epoch.
  bool Next(std::vector<uint64_t>* batch);
  // The epoch of the batch that Next has set last.
  uint64_t epoch() const { return epoch_; }

 private:
  void Skip(uint64_t batches);
  void StartEpoch();
  uint64_t NextIndex();

  const Options options_;
  const bool buffered_;
  const EpochOrder order_;  // used without a shuffle buffer
  uint64_t epoch_ = 0;
  uint64_t given_ = 0;  // records of this epoch that were returned
  uint64_t read_ = 0;   // records of this epoch that entered the buffer
  uint64_t drawn_ = 0;  // random numbers used so far
  std::vector<uint64_t> buffer_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_INDEX_STREAM_H_
