#include "common/rpc/push_pull/peer_segments.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

PeerSegments::Mapped* PeerSegments::FindId(uint64_t id) {
  const auto it = std::ranges::find_if(
      mapped_, [id](const Mapped& mapped) { return mapped.segment->id() == id; });
  return it == mapped_.end() ? nullptr : &*it;
}

absl::Status PeerSegments::Map(const v1::SharedPayload& word, uint64_t sequence) {
  for (const v1::MemorySegment& named : word.segments()) {
    if (Mapped* const mapped = FindId(named.id())) {
      mapped->named = std::max(mapped->named, sequence);
      continue;
    }
    if (failures_ == kMostFailures) continue;
    auto opened = SharedSegment::Open(named.pid(), named.fd(), named.id(), named.bytes(),
                                      SharedSegment::Use::kRead);
    if (!opened.ok()) {
      ++failures_;
      return opened.status();
    }
    failures_ = 0;
    mapped_.push_back({*std::move(opened), sequence});
  }
  return absl::OkStatus();
}

std::span<const SharedSegment* const> PeerSegments::Find(const v1::SharedPayload& word) {
  found_.clear();
  for (const v1::MemorySegment& named : word.segments()) {
    const Mapped* const mapped = FindId(named.id());
    found_.push_back(mapped == nullptr ? nullptr : mapped->segment.get());
  }
  return found_;
}

void PeerSegments::AddTo(v1::SharedPayload* word) const {
  for (const Mapped& mapped : mapped_) word->add_mapped(mapped.segment->id());
}

void PeerSegments::DropIdle(uint64_t sequence, const Numbers& reading) {
  std::erase_if(mapped_, [&](const Mapped& mapped) {
    return mapped.named + kIdleAfter < sequence &&
           std::none_of(reading.begin(), reading.end(),
                        [&](uint64_t read) { return read <= mapped.named; });
  });
}

}  // namespace cohort
