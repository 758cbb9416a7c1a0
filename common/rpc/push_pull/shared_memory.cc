#include "common/rpc/push_pull/shared_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "proto/shared_payload.pb.h"

namespace cohort {
namespace {

std::atomic<rlim_t> segments{0};

rlim_t MostSegments() {
  rlimit files = {};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 ? files.rlim_cur / 4 : 0;
}

}  // namespace

SharedMemory::SharedMemory(std::unique_ptr<SharedSegment> segment) : segment_(std::move(segment)) {
  segments.fetch_add(1, std::memory_order_relaxed);
}

SharedMemory::~SharedMemory() { segments.fetch_sub(1, std::memory_order_relaxed); }

BufferRef SharedMemory::Allocate(size_t bytes) {
  if (segments.load(std::memory_order_relaxed) >= MostSegments()) return {};
  auto segment =
      SharedSegment::Create(SharedSegment::kAlignment + bytes, SharedSegment::Use::kRead);
  if (!segment.ok()) return {};
  uint8_t* const data = (*segment)->At(SharedSegment::kAlignment, bytes).data();
  return BufferRef::Within(std::unique_ptr<BufferMemory>(new SharedMemory(*std::move(segment))),
                           data, bytes);
}

uint32_t SharedMemory::AddTo(v1::SharedPayload* word) const {
  for (int i = word->segments_size(); i > 0; --i) {
    if (word->segments(i - 1).id() == segment_->id()) return static_cast<uint32_t>(i);
  }
  v1::MemorySegment* const added = word->add_segments();
  added->set_id(segment_->id());
  added->set_pid(static_cast<uint32_t>(getpid()));
  added->set_fd(static_cast<uint32_t>(segment_->fd()));
  added->set_bytes(segment_->size());
  return static_cast<uint32_t>(word->segments_size());
}

}  // namespace cohort
