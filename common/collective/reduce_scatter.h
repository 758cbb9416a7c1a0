#ifndef COHORT_COMMON_COLLECTIVE_REDUCE_SCATTER_H_
#define COHORT_COMMON_COLLECTIVE_REDUCE_SCATTER_H_

#include <absl/status/status.h>

#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/collective/element_span.h"
#include "common/collective/peer_streams.h"

namespace cohort {

// Names one operation of a group. All ranks use the same names.
struct OperationName {
  uint64_t step = 0;
  uint64_t step_try = 0;
  uint32_t bucket = 0;

  auto operator<=>(const OperationName&) const = default;
  static OperationName Of(const v1::CollectiveHeader& header) {
    return {header.step(), header.step_try(), header.bucket()};
  }
  void Stamp(v1::CollectiveHeader* header) const;
  // "step 7, try 1, bucket 3".
  std::string ToString() const;
};

// The elements [begin, end) of a buffer.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
};

struct ReduceScatterCall {
  OperationName name;
  // What this rank adds. The own part becomes the sum, and the other parts are unspecified. Nobody
  // else may use it until Wait returns. All ranks give the same number of elements and the same
  // dtype.
  ElementSpan buffer;
  // By rank the end of the part that it owns, which begins at the end of the part before. Parts may
  // be empty. The same on all ranks.
  std::span<const uint64_t> part_ends;

  ElementRange part(int rank) const {
    const size_t r = static_cast<size_t>(rank);
    return {r == 0 ? 0 : part_ends[r - 1], part_ends[r]};
  }
};

// InvalidArgument if the call contradicts itself.
absl::Status CheckCall(const ReduceScatterCall& call, int ranks);
// Equal on all ranks that have started an operation with the same arguments.
uint32_t SignatureOf(const ReduceScatterCall& call, uint64_t chunk_bytes);

// One reduce-scatter of one rank. Each rank receives from the rank before it and sends to the rank
// after it. The sum of part p begins at rank p + 1 and ends at its owner p: every rank on the way
// adds its own elements to the chunk that arrives and sends it on at once. So a rank sends (N - 1)
// / N of the buffer in all, which is the least possible (P. Patarasuk, X. Yuan: Bandwidth optimal
// all-reduce algorithms for clusters of workstations, 2009).
//
// Partial sums overwrite the buffer. An element of part p is the left fold in the order p + 1, p +
// 2, ..., p: it is the same in every run, but it depends on the number of ranks.
//
// Flow control is by operation. A rank sends at most early_bytes until the next one has started the
// operation and gives it credit. Then at most a window is sent and not used. An operation that a
// rank has started uses chunks as they come, so it never waits for memory that another operation
// holds.
//
// It belongs to the thread of the group.
class ReduceScatter {
 public:
  // The call was checked. The options and the streams outlive this.
  ReduceScatter(const CollectiveGroupOptions& options, PeerStreams* streams,
                const ReduceScatterCall& call);

  // Sends what can be sent.
  void Start();
  // Adds a chunk of another rank and sends what follows from it. Error: InvalidArgument if the
  // chunk does not belong to the operation, or the other rank has started it with other arguments.
  absl::Status OnChunk(std::unique_ptr<ReceivedFrame> chunk);
  // The next rank has given credit.
  void OnCredit(uint64_t limit);
  // Ends the operation early.
  void End(absl::Status status);

  // True if nothing is to be received or sent.
  bool done() const { return received_ == expected_ && queue_.empty(); }
  bool ended() const { return !status_.ok(); }
  // True if nobody reads the buffer.
  bool released() const { return loan_.idle(); }
  bool IsWaitingForChunks() const { return received_ < expected_; }
  // The rank that must send chunks or credit before the operation can end. -1: none.
  int WaitingFor() const;

  const absl::Status& status() const { return status_; }
  const OperationName& name() const { return call_.name; }
  // Bytes of the chunks that were used.
  uint64_t received() const { return received_; }

 private:
  void SendChunk(const ElementRange& chunk);
  void Pump();
  void GiveCredit(uint64_t limit);
  uint64_t BytesOf(const ElementRange& range) const { return range.size() * item_; }

  const CollectiveGroupOptions& options_;
  PeerStreams* const streams_;
  const std::vector<uint64_t> part_ends_;
  const ReduceScatterCall call_;  // refers to part_ends_
  const uint64_t item_;           // bytes of an element
  const uint64_t chunk_elements_;
  const uint32_t signature_;

  absl::Status status_;
  // To the next rank.
  std::deque<ElementRange> queue_;
  uint64_t sent_ = 0;
  uint64_t limit_;  // `sent_` may not exceed it
  // From the rank before.
  uint64_t expected_ = 0;  // bytes in all
  uint64_t received_ = 0;
  const uint64_t window_;
  uint64_t granted_;  // the limit of that rank
  PayloadLoan loan_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_REDUCE_SCATTER_H_
