#include <algorithm>
#include <bit>

#include "common/data/dataset.h"
#include "common/data/permutation.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

// One epoch's order, with its keys derived once.
class EpochWalk {
 public:
  EpochWalk(uint64_t records, uint64_t block_size, uint64_t seed, uint64_t epoch)
      : block_size_(block_size),
        blocks_((records + block_size - 1) / block_size),
        last_size_(records - (blocks_ - 1) * block_size),
        key_(PhiloxMix(seed, epoch)),
        permutation_(blocks_, key_, 0),
        short_begin_(permutation_.Inverse(blocks_ - 1) * block_size) {}

  uint64_t Record(uint64_t position) const {
    if (block_size_ == 1) return permutation_(position);
    // All blocks in their permuted order have the same length, except the short one.
    uint64_t rank = position / block_size_;
    uint64_t offset = position % block_size_;
    if (position >= short_begin_ + last_size_) {
      const uint64_t behind = position - short_begin_ - last_size_;
      rank = short_begin_ / block_size_ + 1 + behind / block_size_;
      offset = behind % block_size_;
    }
    const uint64_t block = permutation_(rank);
    const uint64_t size = block + 1 == blocks_ ? last_size_ : block_size_;
    return block * block_size_ + Permutation(size, key_, block + 1)(offset);
  }

 private:
  uint64_t block_size_;
  uint64_t blocks_;
  uint64_t last_size_;
  uint64_t key_;
  Permutation permutation_;
  uint64_t short_begin_;  // the position of the first record of the last block
};

}  // namespace

Permutation::Permutation(uint64_t size, uint64_t key_low, uint64_t key_high) : size_(size) {
  const int bits = std::bit_width(size - 1);
  right_bits_ = bits - bits / 2;
  right_mask_ = (uint64_t{1} << right_bits_) - 1;
  left_mask_ = (uint64_t{1} << (bits / 2)) - 1;
  for (size_t i = 0; i < keys_.size(); i += 2) {
    const PhiloxBlock block = Philox(key_high, i, key_low);
    keys_[i] = block[0] | static_cast<uint64_t>(block[1]) << 32;
    keys_[i + 1] = block[2] | static_cast<uint64_t>(block[3]) << 32;
  }
}

EpochOrder::EpochOrder(uint64_t records, uint64_t block_size, bool shuffle, uint64_t seed)
    : records_(records),
      block_size_(std::max<uint64_t>(block_size, 1)),
      shuffle_(shuffle),
      seed_(seed) {}

uint64_t EpochOrder::Record(uint64_t epoch, uint64_t position) const {
  if (!shuffle_) return position;
  return EpochWalk(records_, block_size_, seed_, epoch).Record(position);
}

void EpochOrder::Records(uint64_t epoch, uint64_t begin, uint64_t end,
                         std::vector<uint64_t>* records) const {
  records->resize(end - begin);
  if (!shuffle_) {
    for (uint64_t p = begin; p < end; ++p) (*records)[p - begin] = p;
    return;
  }
  const EpochWalk walk(records_, block_size_, seed_, epoch);
  for (uint64_t p = begin; p < end; ++p) (*records)[p - begin] = walk.Record(p);
}

}  // namespace cohort
