#include "ps_server/responder.h"

#include <cstring>
#include <utility>

#include "common/rpc/stream/stream.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/response_chunks.h"

namespace cohort {
namespace {

// Smaller answers travel: copying them to shared memory would gain nothing.
constexpr size_t kPlacedFrom = 16 << 10;

}  // namespace

void Responder::SetArea(uint64_t begin, uint64_t bytes) {
  next_ = end_ = 0;
  if (segment_ == nullptr || !segment_->Contains(begin, bytes)) return;
  next_ = begin;
  end_ = begin + bytes;
}

void Responder::Send(v1::PushPullResponseHeader* header, std::span<PayloadSlice> payload,
                     Stream* stream) {
  ForEachChunk(
      header, payload, kResponseChunkBytes,
      [this, stream](const v1::PushPullResponseHeader& chunk, std::span<PayloadSlice> slices) {
        SendFrame(chunk, slices, stream);
      });
}

void Responder::SendError(const v1::PushPullResponseHeader& header, Stream* stream) {
  stream->Send(encoder_.Finish(header));
}

void Responder::SendFrame(const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload,
                          Stream* stream) {
  const bool placed = Place(payload);
  for (PayloadSlice& slice : payload) {
    metrics_->bytes_out->Increment(slice.bytes);
    if (placed) continue;
    encoder_.BeginPayload();
    encoder_.Append(std::move(slice.buffer), slice.offset, slice.bytes);
  }
  stream->Send(encoder_.Finish(header, segment_ == nullptr ? nullptr : &word_));
}

// Copies the values to shared memory, if the client has set enough aside. The references are given
// up, so that the next apply need not copy the blocks.
bool Responder::Place(std::span<PayloadSlice> payload) {
  if (segment_ == nullptr) return false;
  word_.Clear();
  word_.set_id(segment_->id());
  size_t rounded = 0;
  size_t bytes = 0;
  for (const PayloadSlice& slice : payload) {
    rounded += SharedSegment::Aligned(slice.bytes);
    bytes += slice.bytes;
  }
  if (bytes < kPlacedFrom || rounded > end_ - next_) return false;
  for (PayloadSlice& slice : payload) {
    std::memcpy(segment_->At(next_, slice.bytes).data(), slice.buffer->data() + slice.offset,
                slice.bytes);
    word_.add_begin(next_);
    word_.add_length(slice.bytes);
    next_ += SharedSegment::Aligned(slice.bytes);
    slice.buffer = BufferRef();
  }
  counters_->bytes_placed.fetch_add(static_cast<int64_t>(bytes));
  return true;
}

size_t Responder::Trim(size_t slices) {
  if (static_cast<size_t>(word_.begin_size()) > slices) v1::SharedPayload().Swap(&word_);
  return encoder_.Trim(slices);
}

}  // namespace cohort
