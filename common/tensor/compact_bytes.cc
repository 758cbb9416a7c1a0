#include "common/tensor/compact_bytes.h"

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

template <typename T>
T Load(const uint8_t* items, size_t i) {
  T item;
  std::memcpy(&item, items + i * sizeof(T), sizeof(T));
  return item;
}

// How many items are narrowed before it is checked that none was too large.
constexpr size_t kAtOnce = 256;

// Calls narrow(begin, end), which returns bits that must be 0, for some items at a time.
template <typename Narrow>
bool InBlocks(size_t count, const Narrow& narrow) {
  for (size_t begin = 0; begin < count; begin += kAtOnce) {
    if (narrow(begin, std::min(count, begin + kAtOnce)) != 0) return false;
  }
  return true;
}

}  // namespace

bool NarrowKeys(std::span<const int64_t> keys, uint32_t* out) {
  return InBlocks(keys.size(), [&](size_t begin, size_t end) {
    uint64_t all = 0;
    for (size_t i = begin; i < end; ++i) {
      all |= static_cast<uint64_t>(keys[i]);
      out[i] = static_cast<uint32_t>(keys[i]);
    }
    return all >> 32;
  });
}

bool NarrowWords(std::span<const uint8_t> words, uint16_t* out) {
  return InBlocks(words.size() / sizeof(uint32_t), [&](size_t begin, size_t end) {
    uint32_t all = 0;
    for (size_t i = begin; i < end; ++i) {
      const auto word = Load<uint32_t>(words.data(), i);
      all |= word;
      out[i] = static_cast<uint16_t>(word >> 16);
    }
    return all & 0xffff;
  });
}

void WidenKeys(std::span<const uint8_t> from, int64_t* out) {
  const size_t count = from.size() / sizeof(uint32_t);
  for (size_t i = 0; i < count; ++i) out[i] = Load<uint32_t>(from.data(), i);
}

void WidenWords(std::span<const uint8_t> from, uint32_t* out) {
  const size_t count = from.size() / sizeof(uint16_t);
  for (size_t i = 0; i < count; ++i) out[i] = uint32_t{Load<uint16_t>(from.data(), i)} << 16;
}

uint8_t* StableMemory::Take(size_t bytes) {
  const size_t rounded = Rounded(bytes);
  if (chunks_.empty() || rounded > chunks_.back().second - used_) {
    const size_t size = std::max(kChunk, rounded);
    chunks_.emplace_back(std::unique_ptr<uint8_t[]>(new uint8_t[size]), size);
    bytes_ += size;
    used_ = 0;
  }
  uint8_t* const at = chunks_.back().first.get() + used_;
  used_ += rounded;
  return at;
}

void StableMemory::Reset(size_t most) {
  used_ = 0;
  if (chunks_.empty()) return;
  const auto largest =
      std::ranges::max_element(chunks_, {}, [](const auto& chunk) { return chunk.second; });
  std::swap(*largest, chunks_.front());
  chunks_.resize(chunks_.front().second <= most ? 1 : 0);
  bytes_ = chunks_.empty() ? 0 : chunks_.front().second;
}

}  // namespace cohort
