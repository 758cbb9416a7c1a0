#ifndef COHORT_COMMON_RPC_PUSH_PULL_PEER_SEGMENTS_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PEER_SEGMENTS_H_

#include <absl/status/status.h>
#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/rpc/push_pull/shared_segment.h"

namespace cohort {

namespace v1 {
class SharedPayload;
}

// The segments of other processes that this process has mapped to read values where they are
// (SharedPayload.segments). Not thread-safe.
//
//   named ──► mapped, and reported in `mapped` ──► values come in it ──► idle, dropped
class PeerSegments {
 public:
  // Ids or sequences in a message.
  using Numbers = google::protobuf::RepeatedField<uint64_t>;

  // The number of sequences after which a segment that no message names is dropped.
  static constexpr uint64_t kIdleAfter = 256;
  static constexpr int kMostFailures = 8;

  // Maps those segments of the message that are not mapped yet. `sequence`: the message's. Error:
  // that of SharedSegment::Open. A process that has ended explains one error. After kMostFailures
  // in a row no more segments are mapped, because all would fail alike.
  absl::Status Map(const v1::SharedPayload& word, uint64_t sequence);
  // By entry of `word.segments`: the segment, or null if it is not mapped. Valid until the next
  // call of a function that is not const.
  std::span<const SharedSegment* const> Find(const v1::SharedPayload& word);
  // Adds the ids of all mapped segments.
  void AddTo(v1::SharedPayload* word) const;
  // Unmaps segments that have been idle. Keeps those whose values may still be read: `reading` as
  // in PushPullHeader.
  void DropIdle(uint64_t sequence, const Numbers& reading);

  bool failed() const { return failures_ == kMostFailures; }
  size_t count() const { return mapped_.size(); }

 private:
  struct Mapped {
    std::unique_ptr<SharedSegment> segment;
    uint64_t named = 0;  // sequence of the newest message that named it
  };
  Mapped* FindId(uint64_t id);

  int failures_ = 0;  // in a row
  std::vector<Mapped> mapped_;
  std::vector<const SharedSegment*> found_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_PEER_SEGMENTS_H_
