#ifndef COHORT_COMMON_RPC_PUSH_PULL_SHARED_SEGMENT_H_
#define COHORT_COMMON_RPC_PUSH_PULL_SHARED_SEGMENT_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/base/unique_fd.h"

namespace cohort {

// Memory that two processes of one host share: see proto/shared_payload.proto. A memfd that can
// never shrink, so that reading it never faults, whatever the other process does.
class SharedSegment {
 public:
  // Payloads begin at multiples of this; the first bytes hold the id.
  static constexpr size_t kAlignment = 64;
  static size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // What the process that opens a segment may do with it.
  enum class Use : uint8_t { kReadAndWrite, kRead };

  // Creates a segment of `bytes`. Payloads may use it from kAlignment on. With kRead, no other
  // mapping of it can be written. Errors: ResourceExhausted, with the system's reason.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(size_t bytes,
                                                               Use others = Use::kReadAndWrite);
  // Opens the segment of another process (or of this one). With kRead, maps all of its pages at
  // once, and nobody writes through the result. Errors: Unavailable if it cannot be opened (it
  // belongs to another host or user), InvalidArgument if it is not such a segment.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(uint32_t pid, uint32_t fd, uint64_t id,
                                                             uint64_t bytes,
                                                             Use use = Use::kReadAndWrite);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  // Gives the creator other memory at the same addresses, with the same contents, and another id.
  // Other processes that have mapped the segment keep the old memory, which nobody writes any more.
  // If there is not enough memory, the creator's further writes are not shared with anyone.
  void Renew();
  // False after a Renew that lacked memory.
  bool is_shared() const { return id_ != 0; }

  uint64_t id() const { return id_; }
  int fd() const { return fd_.get(); }  // negative if it was opened with kRead
  size_t size() const { return size_; }
  // True if a payload may use these bytes and may begin there.
  bool Contains(uint64_t begin, uint64_t length) const {
    return begin >= kAlignment && begin % kAlignment == 0 && begin <= size_ &&
           length <= size_ - begin;
  }
  // True if the bytes are payload, wherever they begin.
  bool Covers(uint64_t begin, uint64_t length) const {
    return begin >= kAlignment && begin <= size_ && length <= size_ - begin;
  }
  // The bytes; call Contains or Covers first. The other process may write them at any time.
  std::span<uint8_t> At(uint64_t begin, uint64_t length) const { return {data_ + begin, length}; }

 private:
  SharedSegment(UniqueFd fd, uint8_t* data, size_t size, uint64_t id)
      : fd_(std::move(fd)), data_(data), size_(size), id_(id) {}

  UniqueFd fd_;
  uint8_t* data_;  // null: it was moved
  const size_t size_;
  uint64_t id_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_SHARED_SEGMENT_H_
