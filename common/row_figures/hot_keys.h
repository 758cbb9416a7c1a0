#ifndef COHORT_COMMON_ROW_FIGURES_HOT_KEYS_H_
#define COHORT_COMMON_ROW_FIGURES_HOT_KEYS_H_

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cohort {

// Which keys a stream of keys names most often, in bounded memory: the sketch of Anderson et al.,
// "A high-performance algorithm for identifying frequent items in data streams" (2017). It counts
// some keys. When there are too many, it subtracts the median count from all and forgets those that
// have none left. A count is too low by at most error(). It looks at one key of kSampled, at random
// distances, so its cost is that of a few instructions per call. Not thread-safe.
class HotKeys {
 public:
  static constexpr size_t kMostKeys = 1024;
  static constexpr uint64_t kSampled = 256;

  // The stream continues with `keys`.
  void Add(std::span<const int64_t> keys) {
    for (; next_ < keys.size(); next_ += Distance()) Count(keys[next_]);
    next_ -= keys.size();
  }
  // The keys that were named most often, at most `most`, with about how often; the first is the
  // hottest.
  std::vector<std::pair<int64_t, uint64_t>> Top(size_t most) const;
  // A key that Top does not know was named at most about this often.
  uint64_t error() const { return subtracted_ * kSampled; }

 private:
  void Count(int64_t key);
  void Shrink();
  // Between two keys that are looked at: 1 to 2 * kSampled - 1, its mean is kSampled.
  uint64_t Distance();

  absl::flat_hash_map<int64_t, uint64_t> counts_;
  uint64_t subtracted_ = 0;
  uint64_t next_ = kSampled / 2;  // how many keys come before the next one that is looked at
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace cohort

#endif  // COHORT_COMMON_ROW_FIGURES_HOT_KEYS_H_
