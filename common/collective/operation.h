#ifndef COHORT_COMMON_COLLECTIVE_OPERATION_H_
#define COHORT_COMMON_COLLECTIVE_OPERATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/collective/algorithm.h"
#include "common/collective/choose.h"
#include "common/collective/direct.h"
#include "common/collective/peer_streams.h"
#include "common/collective/ring.h"

namespace cohort {

// What identifies an operation in a group.
struct OperationKey {
  OperationName name;
  CollectiveKind kind = CollectiveKind::kReduceScatter;

  bool operator==(const OperationKey&) const = default;
  // Writes it into a header.
  void Stamp(v1::CollectiveHeader* header) const {
    header->set_step(name.step);
    header->set_step_try(name.step_try);
    header->set_bucket(name.bucket);
    header->set_operation(static_cast<uint32_t>(kind));
  }
};

// One operation of one rank over the streams: its algorithm, what it may send to each other rank, and
// what it has received. Reused for one operation after another. It belongs to the thread of the group.
//
// Flow control is by operation and pair of ranks. A rank sends at most early_bytes until the other
// one has started the operation and gives it credit. Then at most a window is sent and not used:
// window_bytes, or more if the chunks of one fold need it, because a rank has many places.
// An operation that a rank has started uses chunks as they come, so it never waits for memory that
// another operation holds.
class Operation final : public ChunkPort {
 public:
  struct Limits {
    uint64_t early_bytes = 0;
    uint64_t window_bytes = 0;
  };

  Operation(PeerStreams* streams, const Limits& limits) : streams_(streams), limits_(limits) {}

  // Takes over a call that was checked, and sends what can be sent.
  void Begin(const CollectiveCall& call, AlgorithmKind algorithm, int rank, int ranks,
             uint64_t chunk_bytes);
  // Uses a chunk of another rank. Error: InvalidArgument if the other rank has started the operation
  // with other arguments.
  absl::Status OnChunk(std::unique_ptr<ReceivedFrame> chunk);
  // Where the elements of a chunk that is arriving belong; null: that must be decided by OnChunk.
  uint8_t* PlaceOf(int from, const v1::CollectiveHeader& header, uint64_t bytes) const;
  // Another rank has given credit.
  void OnCredit(int from, uint64_t limit);
  // Sends what is queued for a rank, as far as credit and slots allow.
  void Pump(int to);
  // Ends the operation early.
  void End(absl::Status status);

  // True if nothing is to be received or sent.
  bool done() const { return algorithm_->received_all() && queued_ == 0; }
  bool ended() const { return !status_.ok(); }
  // True if nobody reads the buffers.
  bool released() const { return loan_.idle(); }
  bool IsWaitingForRank(int rank) const {
    return flows_[static_cast<size_t>(rank)].received < flows_[static_cast<size_t>(rank)].expected;
  }
  // The rank that must send something before the operation can end: chunks, or credit. -1: none.
  int WaitingFor() const;

  const absl::Status& status() const { return status_; }
  const OperationKey& key() const { return key_; }
  uint32_t signature() const { return signature_; }
  uint64_t item_bytes() const { return shape_.item(); }
  Duration deadline() const { return deadline_; }
  // A rank has read a chunk of this operation in shared memory.
  void OnSlotFree(int to) { --flows_[static_cast<size_t>(to)].in_slots; }
  // The first operation in flight. Its chunks take the socket if later operations hold all slots.
  // Other chunks wait for a slot.
  void set_oldest(bool oldest) { oldest_ = oldest; }

  // The ticket; 0: the object is not in use.
  uint64_t ticket = 0;

  void Send(int to, const ChunkPlace& what, const uint8_t* elements) override;
  void Consumed(std::unique_ptr<Chunk> chunk) override;

 private:
  struct Queued {
    ChunkPlace what;
    const uint8_t* elements;
  };
  struct Flow {
    std::vector<Queued> queue;
    size_t next = 0;  // in the queue
    uint64_t sent = 0;
    int in_slots = 0;       // chunks that the rank has not read yet
    uint64_t limit = 0;     // `sent` may not exceed it
    uint64_t expected = 0;  // bytes from the rank, in all
    uint64_t received = 0;
    uint64_t consumed = 0;
    uint64_t window = 0;
    uint64_t granted = 0;  // the rank's limit
  };

  bool SendNow(int to, const Queued& chunk, uint64_t bytes);
  v1::CollectiveHeader* NewHeader(v1::CollectiveFrameKind kind);
  void GiveCredit(int to, uint64_t limit);
  uint64_t WindowOf(int from) const;
  uint32_t Signature(AlgorithmKind algorithm) const;

  PeerStreams* const streams_;
  const Limits limits_;

  OperationKey key_;
  Duration deadline_{};
  absl::Status status_;
  uint32_t signature_ = 0;
  OperationShape shape_;
  CollectiveAlgorithm* algorithm_ = nullptr;
  RingAlgorithm ring_;
  DirectAlgorithm direct_;
  ExchangeAlgorithm exchange_;
  std::vector<Flow> flows_;  // by rank
  size_t queued_ = 0;        // chunks in all queues
  bool oldest_ = false;
  PayloadLoan loan_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_OPERATION_H_
