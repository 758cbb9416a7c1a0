#include "common/collective/direct.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

uint64_t PlacesOf(const OperationShape& shape, int rank) {
  return static_cast<uint64_t>(std::count(shape.order.begin(), shape.order.end(), rank));
}

// Sends the elements of one range, for each place of this rank.
void SendContributions(const OperationShape& shape, std::span<const ElementSpan> contributions,
                       int to, const ElementRange& range, ChunkPort* port) {
  for (uint64_t i = 0; i < shape.ChunksOf(range); ++i) {
    const ElementRange chunk = shape.ChunkOf(range, i);
    size_t own = 0;
    for (size_t place = 0; place < shape.order.size(); ++place) {
      if (shape.order[place] != shape.rank) continue;
      port->Send(
          to,
          {.phase = ChunkPhase::kScatter, .place = static_cast<uint32_t>(place), .range = chunk},
          contributions[own++].at(chunk.begin));
    }
  }
}

absl::Status Unexpected(const Chunk& chunk) {
  return InvalidArgument("rank {} sent elements [{}, {}) of place {}, which are not expected",
                         chunk.from, chunk.what.range.begin, chunk.what.range.end,
                         chunk.what.place);
}

}  // namespace

void PlaceFolder::Prepare(const OperationShape* shape, ElementRange range) {
  shape_ = shape;
  range_ = range;
  remote_places_ = shape->order.size() - PlacesOf(*shape, shape->rank);
  open_chunks_ = shape->ChunksOf(range);
  held_.clear();
  held_.resize(open_chunks_ * shape->order.size());
  present_.assign(open_chunks_, 0);
  folded_.assign(open_chunks_, false);
}

absl::StatusOr<int64_t> PlaceFolder::Take(std::unique_ptr<Chunk>* chunk) {
  const ChunkPlace& what = (*chunk)->what;
  const bool known = what.place < shape_->order.size() && what.range.begin >= range_.begin &&
                     what.range.end <= range_.end && what.range.size() > 0;
  if (!known || shape_->order[what.place] != (*chunk)->from) return Unexpected(**chunk);
  const uint64_t index = (what.range.begin - range_.begin) / shape_->chunk_elements;
  if (shape_->ChunkOf(range_, index) != what.range || held(index, what.place) != nullptr ||
      folded_[index]) {
    return Unexpected(**chunk);
  }
  held(index, what.place) = std::move(*chunk);
  return ++present_[index] == remote_places_ ? static_cast<int64_t>(index) : -1;
}

ElementRange PlaceFolder::Fold(uint64_t chunk, ChunkPort* port) {
  const ElementRange range = shape_->ChunkOf(range_, chunk);
  folder_.Begin();
  size_t own = 0;
  for (size_t place = 0; place < shape_->order.size(); ++place) {
    if (shape_->order[place] == shape_->rank) {
      folder_.Add(shape_->contributions[own++].at(range.begin));
    } else {
      folder_.Add(held(chunk, place)->pieces);
    }
  }
  folder_.Fold(shape_->buffer.dtype(), shape_->buffer.at(range.begin), range.size());
  for (size_t place = 0; place < shape_->order.size(); ++place) {
    if (held(chunk, place) != nullptr) port->Consumed(std::move(held(chunk, place)));
  }
  folded_[chunk] = true;
  --open_chunks_;
  return range;
}

int PlaceFolder::Missing() const {
  for (uint64_t chunk = 0; chunk < present_.size(); ++chunk) {
    if (folded_[chunk]) continue;
    for (size_t place = 0; place < shape_->order.size(); ++place) {
      const bool here = shape_->order[place] == shape_->rank ||
                        held_[chunk * shape_->order.size() + place] != nullptr;
      if (!here) return shape_->order[place];
    }
  }
  return -1;
}

void PlaceFolder::Drop(ChunkPort* port) {
  for (std::unique_ptr<Chunk>& chunk : held_) {
    if (chunk != nullptr) port->Consumed(std::move(chunk));
  }
}

void DirectAlgorithm::Prepare(const OperationShape* shape, ChunkPort* port) {
  shape_ = shape;
  port_ = port;
  places_.Prepare(shape, shape->scatters() ? shape->part(shape->rank) : ElementRange());
  outstanding_from_.assign(static_cast<size_t>(shape->ranks), 0);
  outstanding_elements_ = 0;
  if (!shape->gathers()) return;
  for (int from = 0; from < shape->ranks; ++from) {
    if (from == shape->rank) continue;
    outstanding_from_[static_cast<size_t>(from)] = shape->part(from).size();
    outstanding_elements_ += shape->part(from).size();
  }
}

uint64_t DirectAlgorithm::BytesFrom(int from) const {
  if (from == shape_->rank) return 0;
  uint64_t elements = 0;
  if (shape_->scatters()) elements += PlacesOf(*shape_, from) * shape_->part(shape_->rank).size();
  if (shape_->gathers()) elements += shape_->part(from).size();
  return elements * shape_->item();
}

void DirectAlgorithm::Start() {
  // Each rank begins with the rank behind it, so that not all send to one owner at first.
  for (int i = 1; i < shape_->ranks; ++i) {
    const int to = (shape_->rank + i) % shape_->ranks;
    if (!shape_->scatters()) continue;
    SendContributions(*shape_, shape_->contributions, to, shape_->part(to), port_);
  }
  const ElementRange own = shape_->part(shape_->rank);
  if (shape_->scatters()) {
    if (places_.remote_places() > 0) return;
    for (uint64_t i = 0; i < shape_->ChunksOf(own); ++i) FoldAndSend(i);
    return;
  }
  for (uint64_t i = 0; i < shape_->ChunksOf(own); ++i) {
    const ElementRange chunk = shape_->ChunkOf(own, i);
    for (int k = 1; k < shape_->ranks; ++k) {
      port_->Send((shape_->rank + k) % shape_->ranks,
                  {.phase = ChunkPhase::kGather, .range = chunk}, shape_->buffer.at(chunk.begin));
    }
  }
}

void DirectAlgorithm::FoldAndSend(uint64_t chunk) {
  const ElementRange range = places_.Fold(chunk, port_);
  if (!shape_->gathers()) return;
  for (int k = 1; k < shape_->ranks; ++k) {
    port_->Send((shape_->rank + k) % shape_->ranks, {.phase = ChunkPhase::kGather, .range = range},
                shape_->buffer.at(range.begin));
  }
}

bool DirectAlgorithm::IsFinal(int from, const ChunkPlace& what) const {
  const ElementRange part = shape_->part(from);
  return what.phase == ChunkPhase::kGather && what.range.begin >= part.begin &&
         what.range.end <= part.end &&
         what.range.size() <= outstanding_from_[static_cast<size_t>(from)];
}

absl::Status DirectAlgorithm::OnChunk(std::unique_ptr<Chunk> chunk) {
  if (chunk->what.phase == ChunkPhase::kScatter) {
    COHORT_ASSIGN_OR_RETURN(const int64_t complete, places_.Take(&chunk));
    if (complete >= 0) FoldAndSend(static_cast<uint64_t>(complete));
    return absl::OkStatus();
  }
  if (!IsFinal(chunk->from, chunk->what)) return Unexpected(*chunk);
  const ElementRange range = chunk->what.range;
  outstanding_from_[static_cast<size_t>(chunk->from)] -= range.size();
  outstanding_elements_ -= range.size();
  CopyPieces(chunk->pieces, shape_->buffer.at(range.begin));
  port_->Consumed(std::move(chunk));
  return absl::OkStatus();
}

int DirectAlgorithm::WaitingFor() const {
  const int missing = places_.Missing();
  if (missing >= 0) return missing;
  for (int from = 0; from < shape_->ranks; ++from) {
    if (outstanding_from_[static_cast<size_t>(from)] > 0) return from;
  }
  return -1;
}

void ExchangeAlgorithm::Prepare(const OperationShape* shape, ChunkPort* port) {
  shape_ = shape;
  port_ = port;
  places_.Prepare(shape, {0, shape->buffer.elements()});
}

uint64_t ExchangeAlgorithm::BytesFrom(int from) const {
  return from == shape_->rank ? 0 : PlacesOf(*shape_, from) * shape_->buffer.bytes();
}

void ExchangeAlgorithm::Start() {
  const ElementRange all{0, shape_->buffer.elements()};
  const uint64_t bytes = shape_->buffer.bytes();
  copies_.resize(bytes * shape_->contributions.size());
  copy_spans_.clear();
  for (const ElementSpan& contribution : shape_->contributions) {
    uint8_t* const copy = copies_.data() + bytes * copy_spans_.size();
    if (bytes > 0) std::memcpy(copy, contribution.at(0), bytes);
    copy_spans_.emplace_back(shape_->buffer.dtype(), copy, shape_->buffer.elements());
  }
  for (int i = 1; i < shape_->ranks; ++i) {
    SendContributions(*shape_, copy_spans_, (shape_->rank + i) % shape_->ranks, all, port_);
  }
  if (places_.remote_places() > 0) return;
  for (uint64_t i = 0; i < shape_->ChunksOf(all); ++i) places_.Fold(i, port_);
}

absl::Status ExchangeAlgorithm::OnChunk(std::unique_ptr<Chunk> chunk) {
  if (chunk->what.phase != ChunkPhase::kScatter) return Unexpected(*chunk);
  COHORT_ASSIGN_OR_RETURN(const int64_t complete, places_.Take(&chunk));
  if (complete >= 0) places_.Fold(static_cast<uint64_t>(complete), port_);
  return absl::OkStatus();
}

}  // namespace cohort
