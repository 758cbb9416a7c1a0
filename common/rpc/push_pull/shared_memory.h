#ifndef COHORT_COMMON_RPC_PUSH_PULL_SHARED_MEMORY_H_
#define COHORT_COMMON_RPC_PUSH_PULL_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/rpc/push_pull/shared_segment.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class SharedPayload;
}

// Memory of a buffer that other processes of this host may map and read, but not write: the weights
// of a server, the push areas of a worker.
class SharedMemory : public BufferMemory {
 public:
  // Returns a buffer of `bytes` bytes in a segment of its own. Each segment takes a file
  // descriptor, so all of them together take at most a fourth of those that the process may have.
  // Returns an empty reference beyond that, or if memory is short.
  static BufferRef Allocate(size_t bytes);
  ~SharedMemory() override;
  // The memory of the buffer; null if it lies elsewhere.
  static SharedMemory* Of(const Buffer& buffer) {
    return dynamic_cast<SharedMemory*>(buffer.memory());
  }

  const SharedSegment& segment() const { return *segment_; }
  bool Contains(const uint8_t* data) const {
    const uint8_t* const begin = segment_->At(0, 0).data();
    return data >= begin && data < begin + segment_->size();
  }
  // The offset in the segment of an address in it.
  uint64_t OffsetOf(const uint8_t* data) const {
    return static_cast<uint64_t>(data - segment_->At(0, 0).data());
  }
  // Adds the segment to those that the message names, unless it names it. Returns its number there,
  // from 1.
  uint32_t AddTo(v1::SharedPayload* word) const;

  // See SharedSegment::Renew.
  void Renew() { segment_->Renew(); }
  // False: no process can map what is written from now on.
  bool is_shared() const { return segment_->is_shared(); }

 private:
  explicit SharedMemory(std::unique_ptr<SharedSegment> segment);

  const std::unique_ptr<SharedSegment> segment_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_SHARED_MEMORY_H_
