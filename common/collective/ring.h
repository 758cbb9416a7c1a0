#ifndef COHORT_COMMON_COLLECTIVE_RING_H_
#define COHORT_COMMON_COLLECTIVE_RING_H_

#include <memory>
#include <vector>

#include "common/collective/algorithm.h"

namespace cohort {

// Each rank receives from the rank before it and sends to the rank after it. In the scatter phase
// the sum of part p begins at rank p + 1 and ends at its owner p: every rank on the way adds its own
// elements to the chunk that arrives and sends it on. In the gather phase the final chunk travels
// from the owner to the rank before it. Each chunk is sent on as soon as it is summed, so the N - 1
// steps of a phase, and the two phases, overlap. A rank sends 2 (N - 1) / N of the buffer in all,
// which is the least possible (P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for
// clusters of workstations, 2009).
//
// Partial sums overwrite the buffer. An element of part p is the left fold in the order p + 1, p + 2,
// ..., p: it is the same in every run, but it depends on the number of ranks.
class RingAlgorithm final : public CollectiveAlgorithm {
 public:
  void Prepare(const OperationShape* shape, ChunkPort* port) override;
  uint64_t BytesFrom(int from) const override;
  void Start() override;
  absl::Status OnChunk(std::unique_ptr<Chunk> chunk) override;
  bool IsFinal(int from, const ChunkPlace& what) const override;
  bool received_all() const override { return outstanding_elements_ == 0; }
  int WaitingFor() const override { return received_all() ? -1 : left_; }

 private:
  void SendPart(int part, ChunkPhase phase);

  const OperationShape* shape_ = nullptr;
  ChunkPort* port_ = nullptr;
  int left_ = 0;
  int right_ = 0;
  uint64_t outstanding_elements_ = 0;
  PieceFolder folder_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_RING_H_
