#ifndef COHORT_COMMON_TENSOR_COMPACT_BYTES_H_
#define COHORT_COMMON_TENSOR_COMPACT_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace cohort {

// Bytes that a network carries in half of their size, without loss: keys below 2^32, and words of
// 32 bits whose lower halves are 0, as float32 values that were rounded to bfloat16.

// Writes the keys as 32 bits. False: one of them does not fit.
bool NarrowKeys(std::span<const int64_t> keys, uint32_t* out);
// Writes the upper halves of `words`, whose size is a multiple of 4. False: a lower half is not 0.
bool NarrowWords(std::span<const uint8_t> words, uint16_t* out);

// The inverse. `from` need not be aligned.
void WidenKeys(std::span<const uint8_t> from, int64_t* out);
void WidenWords(std::span<const uint8_t> from, uint32_t* out);

// Memory for some pieces of bytes, which keep their addresses until Reset. Not thread-safe.
class StableMemory {
 public:
  // Aligned to 8 bytes, not initialized.
  uint8_t* Take(size_t bytes);
  // Gives back what the last Take has taken.
  void Undo(size_t bytes) { used_ -= Rounded(bytes); }
  // Forgets all pieces, and keeps at most `most` bytes for others.
  void Reset(size_t most);
  // What it holds.
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kChunk = 64 << 10;
  static size_t Rounded(size_t bytes) { return (bytes + 7) / 8 * 8; }

  std::vector<std::pair<std::unique_ptr<uint8_t[]>, size_t>> chunks_;  // the last is in use
  size_t used_ = 0;  // bytes of the last chunk that pieces have
  size_t bytes_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_COMPACT_BYTES_H_
