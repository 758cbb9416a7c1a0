#ifndef COHORT_COMMON_DEVICE_BLOCK_LIST_H_
#define COHORT_COMMON_DEVICE_BLOCK_LIST_H_

#include <cstddef>
#include <map>
#include <optional>

namespace cohort {

// Divides a reserved range of memory into blocks: the first free one that is large enough. Free
// neighbors are joined. Sizes and offsets are multiples of 256. Not synchronized.
class BlockList {
 public:
  static constexpr size_t kAlignment = 256;
  // The bytes that a block of `bytes` occupies.
  static constexpr size_t Rounded(size_t bytes) {
    return bytes == 0 ? kAlignment : (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit BlockList(size_t bytes);

  // Returns the offset of a new block; nothing if no free block is large enough.
  std::optional<size_t> Take(size_t bytes);
  // Frees the block that Take returned.
  void Give(size_t offset);
  // The size of the largest block that Take would return.
  size_t largest_free() const;

 private:
  std::map<size_t, size_t> free_;   // offset -> bytes
  std::map<size_t, size_t> taken_;  // offset -> bytes
};

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_BLOCK_LIST_H_
