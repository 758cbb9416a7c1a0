#ifndef COHORT_COMMON_COLLECTIVE_DIRECT_H_
#define COHORT_COMMON_COLLECTIVE_DIRECT_H_

#include <memory>
#include <vector>

#include "common/collective/algorithm.h"

namespace cohort {

// Sums chunks of contributions in the order of their places, when all of them are there.
class PlaceFolder {
 public:
  // Chunks of `range` will be summed into the buffer of `shape`.
  void Prepare(const OperationShape* shape, ElementRange range);
  // Contributions from other ranks to one chunk.
  size_t remote_places() const { return remote_places_; }
  // Chunks that are not summed yet.
  uint64_t open_chunks() const { return open_chunks_; }
  // Takes a contribution to a chunk of the range. Returns the index of the chunk if all of its
  // contributions are there now, or -1. Error: InvalidArgument if there is no such place, or if it
  // has contributed already.
  absl::StatusOr<int64_t> Take(std::unique_ptr<Chunk>* chunk);
  // Sums one chunk into the buffer and gives its contributions back. Returns its range.
  ElementRange Fold(uint64_t chunk, ChunkPort* port);
  // The rank of the first contribution that is missing; -1: none.
  int Missing() const;
  // Gives all contributions back.
  void Drop(ChunkPort* port);

 private:
  std::unique_ptr<Chunk>& held(uint64_t chunk, size_t place) {
    return held_[chunk * shape_->order.size() + place];
  }

  const OperationShape* shape_ = nullptr;
  ElementRange range_;
  size_t remote_places_ = 0;
  uint64_t open_chunks_ = 0;
  std::vector<std::unique_ptr<Chunk>> held_;  // by chunk and place
  std::vector<uint32_t> present_;             // by chunk: how many are held
  std::vector<bool> folded_;                  // by chunk
  PieceFolder folder_;
};

// Every rank sends each owner its elements of the owner's part, and each owner sends its part of the
// result to all: two hops, whatever the number of ranks. An owner sums a chunk when all
// contributions to it are there, as a left fold in the order of places. So the result has the same
// bits for every order of arrival, number of ranks and number of owners.
class DirectAlgorithm final : public CollectiveAlgorithm {
 public:
  void Prepare(const OperationShape* shape, ChunkPort* port) override;
  uint64_t BytesFrom(int from) const override;
  void Start() override;
  absl::Status OnChunk(std::unique_ptr<Chunk> chunk) override;
  bool IsFinal(int from, const ChunkPlace& what) const override;
  bool received_all() const override {
    return places_.open_chunks() == 0 && outstanding_elements_ == 0;
  }
  int WaitingFor() const override;
  void Drop() override { places_.Drop(port_); }

 private:
  void FoldAndSend(uint64_t chunk);

  const OperationShape* shape_ = nullptr;
  ChunkPort* port_ = nullptr;
  PlaceFolder places_;
  uint64_t outstanding_elements_ = 0;       // the gather phase brings them
  std::vector<uint64_t> outstanding_from_;  // the same by rank
};

// An all-reduce of a few elements in one hop: every rank sends all of its elements to all others and
// sums them all. The sums are those of DirectAlgorithm.
class ExchangeAlgorithm final : public CollectiveAlgorithm {
 public:
  // The most bytes of all contributions together.
  static constexpr uint64_t kMostBytes = uint64_t{64} << 10;

  void Prepare(const OperationShape* shape, ChunkPort* port) override;
  uint64_t BytesFrom(int from) const override;
  void Start() override;
  absl::Status OnChunk(std::unique_ptr<Chunk> chunk) override;
  bool received_all() const override { return places_.open_chunks() == 0; }
  int WaitingFor() const override { return places_.Missing(); }
  void Drop() override { places_.Drop(port_); }

 private:
  const OperationShape* shape_ = nullptr;
  ChunkPort* port_ = nullptr;
  PlaceFolder places_;
  // What is sent: the result may overwrite a contribution before it has left.
  std::vector<uint8_t> copies_;
  std::vector<ElementSpan> copy_spans_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_DIRECT_H_
