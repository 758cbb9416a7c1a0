#ifndef COHORT_COMMON_COLLECTIVE_ALGORITHM_H_
#define COHORT_COMMON_COLLECTIVE_ALGORITHM_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/collective/collective.h"
#include "common/collective/fold.h"

namespace cohort {

// What a chunk carries: a contribution to a sum, or final values.
enum class ChunkPhase : uint8_t { kScatter = 1, kGather = 2 };

// Elements that travel together, and what they are.
struct ChunkPlace {
  ChunkPhase phase = ChunkPhase::kScatter;
  uint32_t place = 0;  // kScatter, direct: index in the order of the sum
  ElementRange range;  // in the buffer
};

// A received chunk, which refers to memory of the transport until it is consumed.
struct Chunk {
  virtual ~Chunk() = default;

  int from = 0;
  ChunkPlace what;
  std::vector<PieceFolder::Bytes> pieces;
};

// The other ranks, as one operation sees them.
class ChunkPort {
 public:
  virtual ~ChunkPort() = default;
  // Queues elements for rank `to`. They are read later, until the operation ends. The algorithm may
  // write them again only if a chunk from `to` proves that `to` has them.
  virtual void Send(int to, const ChunkPlace& what, const uint8_t* elements) = 0;
  // Gives a chunk back whose elements are no longer needed.
  virtual void Consumed(std::unique_ptr<Chunk> chunk) = 0;
};

// One operation as one rank sees it.
struct OperationShape {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int rank = 0;
  int ranks = 1;
  ElementSpan buffer;
  std::vector<int> order;                  // by place: the rank; for sums never empty
  std::vector<ElementSpan> contributions;  // one for each place of this rank
  std::vector<uint64_t> part_ends;         // CollectiveCall::part_ends
  uint64_t chunk_elements = 1;             // the longest chunk

  ElementRange part(int of) const { return PartAmong(part_ends, buffer.elements(), ranks, of); }
  // The rank that owns an element.
  int owner(uint64_t element) const {
    int of = 0;
    while (part(of).end <= element) ++of;
    return of;
  }
  bool scatters() const { return kind != CollectiveKind::kAllGather; }
  bool gathers() const { return kind != CollectiveKind::kReduceScatter; }
  uint64_t item() const { return SizeOf(buffer.dtype()); }
  // The chunks of a range begin at its begin.
  uint64_t ChunksOf(const ElementRange& range) const {
    return (range.size() + chunk_elements - 1) / chunk_elements;
  }
  ElementRange ChunkOf(const ElementRange& range, uint64_t chunk) const {
    const uint64_t begin = range.begin + chunk * chunk_elements;
    return {begin, std::min(range.end, begin + chunk_elements)};
  }
};

// How ranks exchange the parts of a buffer: the state machine of one rank. It knows no transport, so
// tests run it over a simulated one. An object is used for one operation after another and keeps its
// memory.
class CollectiveAlgorithm {
 public:
  virtual ~CollectiveAlgorithm() = default;

  // Begins an operation; both arguments must live until its end. Sends nothing.
  virtual void Prepare(const OperationShape* shape, ChunkPort* port) = 0;
  // The bytes that rank `from` will send in all.
  virtual uint64_t BytesFrom(int from) const = 0;
  // Sends what does not depend on other ranks.
  virtual void Start() = 0;
  // Uses a received chunk, and sends what follows from it. Error: InvalidArgument if the chunk does
  // not belong to the operation.
  virtual absl::Status OnChunk(std::unique_ptr<Chunk> chunk) = 0;
  // True if the elements of a chunk that is arriving may be written where they belong at once, before
  // OnChunk gets it.
  virtual bool IsFinal(int from, const ChunkPlace& what) const { return false; }
  // True if everything was received and used.
  virtual bool received_all() const = 0;
  // The rank that must send something before the operation can end; -1: none.
  virtual int WaitingFor() const = 0;
  // The operation ends early: gives back the chunks that are not used yet.
  virtual void Drop() {}
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_ALGORITHM_H_
