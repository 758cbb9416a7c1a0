#include "common/data/index_stream.h"

#include <algorithm>

#include "common/tensor/philox.h"

namespace cohort {

IndexStream::IndexStream(const Options& options)
    : options_(options),
      buffered_(options.shuffle && options.shuffle_buffer > 0 &&
                options.shuffle_buffer < options.records),
      // A buffer for all records gives a permutation of them.
      order_(options.records, 1, options.shuffle && !buffered_, options.key) {
  Skip(options.begin);
}

void IndexStream::Skip(uint64_t batches) {
  const uint64_t whole = options_.records / options_.batch_size;
  const uint64_t rest = options_.records % options_.batch_size;
  const uint64_t per_epoch = whole + (rest > 0 && !options_.drop_remainder ? 1 : 0);
  if (batches == 0 || per_epoch == 0) return;
  epoch_ = batches / per_epoch;
  const uint64_t records = batches % per_epoch * options_.batch_size;
  if (!buffered_) {
    given_ = records;
    return;
  }
  drawn_ = epoch_ * (options_.drop_remainder ? whole * options_.batch_size : options_.records);
  while (given_ < records) NextIndex();
}

bool IndexStream::Next(std::vector<uint64_t>* batch) {
  const uint64_t left = options_.records - given_;
  if (left == 0 || (options_.drop_remainder && left < options_.batch_size)) {
    ++epoch_;
    StartEpoch();
  }
  if (options_.epochs > 0 && epoch_ >= options_.epochs) return false;
  const uint64_t size = std::min(options_.batch_size, options_.records - given_);
  if (!buffered_) {
    order_.Records(epoch_, given_, given_ + size, batch);
    given_ += size;
    return true;
  }
  batch->clear();
  for (uint64_t i = 0; i < size; ++i) batch->push_back(NextIndex());
  return true;
}

void IndexStream::StartEpoch() {
  given_ = 0;
  read_ = 0;
  buffer_.clear();
}

// tf.data's shuffle: the buffer is kept full, and each record is drawn from it at random.
uint64_t IndexStream::NextIndex() {
  while (buffer_.size() < options_.shuffle_buffer && read_ < options_.records) {
    buffer_.push_back(read_++);
  }
  const PhiloxBlock random = Philox(drawn_++, 1, options_.key);
  const uint64_t bits = random[0] | static_cast<uint64_t>(random[1]) << 32;
  const auto at = static_cast<size_t>(bits % buffer_.size());
  const uint64_t index = buffer_[at];
  buffer_[at] = buffer_.back();
  buffer_.pop_back();
  ++given_;
  return index;
}

}  // namespace cohort
