#include "common/row_figures/hot_keys.h"

#include <algorithm>

namespace cohort {
namespace {

// A key that was looked at less often may be there by chance.
constexpr uint64_t kLeastLooks = 3;

}  // namespace

uint64_t HotKeys::Distance() {
  // Marsaglia's xorshift.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return 1 + ((random_ >> 32) * (2 * kSampled - 1) >> 32);
}

void HotKeys::Count(int64_t key) {
  ++counts_[key];
  if (counts_.size() > kMostKeys) Shrink();
}

void HotKeys::Shrink() {
  std::vector<uint64_t> counts;
  counts.reserve(counts_.size());
  for (const auto& [key, count] : counts_) counts.push_back(count);
  const auto middle = counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2);
  std::nth_element(counts.begin(), middle, counts.end());
  const uint64_t median = *middle;
  subtracted_ += median;
  absl::erase_if(counts_, [median](auto& counted) {
    if (counted.second <= median) return true;
    counted.second -= median;
    return false;
  });
}

std::vector<std::pair<int64_t, uint64_t>> HotKeys::Top(size_t most) const {
  std::vector<std::pair<int64_t, uint64_t>> top;
  for (const auto& counted : counts_) {
    if (counted.second >= kLeastLooks) top.emplace_back(counted);
  }
  const auto hotter = [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  const size_t kept = std::min(most, top.size());
  std::partial_sort(top.begin(), top.begin() + static_cast<std::ptrdiff_t>(kept), top.end(),
                    hotter);
  top.resize(kept);
  for (auto& [key, count] : top) count *= kSampled;
  return top;
}

}  // namespace cohort
