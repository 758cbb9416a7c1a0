#include "common/collective/ring.h"

#include <utility>

#include "common/base/crash_point.h"
#include "common/base/status.h"

namespace cohort {

void RingAlgorithm::Prepare(const OperationShape* shape, ChunkPort* port) {
  shape_ = shape;
  port_ = port;
  left_ = (shape->rank + shape->ranks - 1) % shape->ranks;
  right_ = (shape->rank + 1) % shape->ranks;
  outstanding_elements_ = BytesFrom(left_) / shape->item();
}

// The scatter phase brings every part but the one that begins here, the gather phase every part but
// the own one.
uint64_t RingAlgorithm::BytesFrom(int from) const {
  if (from != left_ || shape_->ranks == 1) return 0;
  const uint64_t all = shape_->buffer.elements();
  uint64_t elements = 0;
  if (shape_->scatters()) elements += all - shape_->part(left_).size();
  if (shape_->gathers()) elements += all - shape_->part(shape_->rank).size();
  return elements * shape_->item();
}

void RingAlgorithm::Start() {
  if (shape_->ranks == 1) return;
  if (shape_->scatters()) {
    SendPart(left_, ChunkPhase::kScatter);
  } else {
    SendPart(shape_->rank, ChunkPhase::kGather);
  }
}

void RingAlgorithm::SendPart(int part, ChunkPhase phase) {
  const ElementRange range = shape_->part(part);
  for (uint64_t i = 0; i < shape_->ChunksOf(range); ++i) {
    const ElementRange chunk = shape_->ChunkOf(range, i);
    port_->Send(right_, {.phase = phase, .range = chunk}, shape_->buffer.at(chunk.begin));
  }
}

bool RingAlgorithm::IsFinal(int from, const ChunkPlace& what) const {
  if (from != left_ || what.phase != ChunkPhase::kGather || what.range.size() == 0) return false;
  const int part = shape_->owner(what.range.begin);
  return part != shape_->rank && what.range.end <= shape_->part(part).end;
}

absl::Status RingAlgorithm::OnChunk(std::unique_ptr<Chunk> chunk) {
  const ElementRange range = chunk->what.range;
  if (chunk->from != left_ || range.size() == 0 || range.size() > outstanding_elements_) {
    return InvalidArgument("rank {} sent elements [{}, {}), which the ring does not expect",
                           chunk->from, range.begin, range.end);
  }
  const int part = shape_->owner(range.begin);
  outstanding_elements_ -= range.size();
  uint8_t* const own = shape_->buffer.at(range.begin);
  if (chunk->what.phase == ChunkPhase::kScatter) {
    folder_.Begin();
    folder_.Add(chunk->pieces);
    folder_.Add(own);
    folder_.Fold(shape_->buffer.dtype(), own, range.size());
    if (part != shape_->rank) {
      COHORT_CRASH_POINT("replica.ring.chunk_added");
      port_->Send(right_, chunk->what, own);
    } else {
      COHORT_CRASH_POINT("replica.ring.chunk_summed");
      if (shape_->gathers()) {
        port_->Send(right_, {.phase = ChunkPhase::kGather, .range = range}, own);
      }
    }
  } else {
    CopyPieces(chunk->pieces, own);
    if (part != right_) port_->Send(right_, chunk->what, own);
  }
  port_->Consumed(std::move(chunk));
  return absl::OkStatus();
}

}  // namespace cohort
