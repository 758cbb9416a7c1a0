#include "ps_server/responder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/rpc/push_pull/shared_memory.h"
#include "common/rpc/stream/stream.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/response_chunks.h"

namespace cohort {
namespace {

// Smaller answers travel: copying them to shared memory would gain nothing.
constexpr size_t kPlacedFrom = 16 << 10;
// Smaller values are not counted until they are sent: that would take as long as sending them.
constexpr size_t kCountedFrom = 64 << 10;

}  // namespace

void Responder::SetArea(uint64_t begin, uint64_t bytes) {
  next_ = end_ = 0;
  if (segment_ == nullptr || !segment_->Contains(begin, bytes)) return;
  next_ = begin;
  end_ = begin + bytes;
}

void Responder::SetLending(std::shared_ptr<Pins::Client> client, std::span<const uint64_t> mapped,
                           uint64_t sequence) {
  client_ = std::move(client);
  mapped_.assign(mapped.begin(), mapped.end());
  sequence_ = sequence;
}

void Responder::Send(v1::PushPullResponseHeader* header, std::span<PayloadSlice> payload,
                     const std::shared_ptr<Stream>& stream) {
  Lend(payload);
  payload_bytes_ = 0;
  for (const PayloadSlice& slice : payload) payload_bytes_ += slice.lent ? 0 : slice.bytes;
  stream_ = stream;
  ForEachChunk(
      header, payload, kResponseChunkBytes,
      [this, stream](const v1::PushPullResponseHeader& chunk, std::span<PayloadSlice> slices) {
        SendFrame(chunk, slices, stream.get());
      });
  counted_ = nullptr;
}

// Blocks in memory that the client has not mapped yet are announced, so that it can map it before
// its next request.
void Responder::Lend(std::span<PayloadSlice> payload) {
  lends_ = false;
  announced_.clear();
  if (client_ == nullptr) return;
  std::vector<BufferRef> blocks;
  const SharedMemory* last = nullptr;
  for (PayloadSlice& slice : payload) {
    const SharedMemory* const memory = SharedMemory::Of(*slice.buffer.get());
    if (memory == nullptr) continue;
    slice.lent = std::ranges::find(mapped_, memory->segment().id()) != mapped_.end();
    if (slice.lent) {
      blocks.push_back(slice.buffer);
    } else if (memory != last) {
      announced_.push_back(slice.buffer);
    }
    last = memory;
  }
  if (blocks.empty()) return;
  lends_ = client_->Pin(sequence_, std::move(blocks));
  if (lends_) return;
  for (PayloadSlice& slice : payload) slice.lent = false;
}

void Responder::SendHeader(const v1::PushPullResponseHeader& header, Stream* stream) {
  stream->Send(encoder_.Finish(header));
}

void Responder::SendFrame(const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload,
                          Stream* stream) {
  word_.Clear();
  if (segment_ != nullptr) word_.set_id(segment_->id());
  if (peers_ != nullptr) peers_->AddTo(&word_);
  Announce();
  bool placed = false;
  if (lends_) {
    PlaceAmongLent(payload);
  } else {
    placed = Place(payload);
  }
  for (PayloadSlice& slice : payload) {
    (slice.lent ? metrics_->bytes_lent : metrics_->bytes_out)->Increment(slice.bytes);
    if (placed || !slice.buffer) continue;
    encoder_.BeginPayload();
    const bool counts = answers_ != nullptr && slice.bytes >= kCountedFrom;
    encoder_.Append(counts ? Counted(std::move(slice.buffer)) : std::move(slice.buffer),
                    slice.offset, slice.bytes);
  }
  stream->Send(encoder_.Finish(header, segment_ == nullptr ? nullptr : &word_));
}

BufferRef Responder::Counted(BufferRef buffer) {
  if (counted_ == nullptr) {
    counted_ = answers_->Begin(payload_bytes_, [weak = stream_] {
      if (const std::shared_ptr<Stream> stream = weak.lock()) stream->Abort();
    });
  }
  return UnsentAnswers::Answer::Count(counted_, std::move(buffer));
}

void Responder::Announce() {
  for (const BufferRef& block : announced_) SharedMemory::Of(*block.get())->AddTo(&word_);
  announced_.clear();
}

// Copies the values to shared memory, if the client has set enough aside. The references are given
// up, so that the next apply need not copy the blocks.
bool Responder::Place(std::span<PayloadSlice> payload) {
  if (segment_ == nullptr) return false;
  size_t rounded = 0;
  size_t bytes = 0;
  for (const PayloadSlice& slice : payload) {
    rounded += SharedSegment::Aligned(slice.bytes);
    bytes += slice.bytes;
  }
  if (bytes < kPlacedFrom || rounded > end_ - next_) return false;
  for (PayloadSlice& slice : payload) {
    CopyToArea(slice);
    slice.buffer = BufferRef();
  }
  return true;
}

// Returns false if the area has no room for the value.
bool Responder::CopyToArea(const PayloadSlice& slice) {
  if (SharedSegment::Aligned(slice.bytes) > end_ - next_) return false;
  std::memcpy(segment_->At(next_, slice.bytes).data(), slice.buffer->data() + slice.offset,
              slice.bytes);
  word_.add_begin(next_);
  word_.add_length(slice.bytes);
  next_ += SharedSegment::Aligned(slice.bytes);
  counters_->bytes_placed.fetch_add(static_cast<int64_t>(slice.bytes));
  return true;
}

// Describes where each value lies: lent, copied to shared memory, or, if it is small, in the frame.
void Responder::PlaceAmongLent(std::span<PayloadSlice> payload) {
  for (PayloadSlice& slice : payload) {
    uint32_t number = 0;
    if (slice.lent) {
      const SharedMemory& memory = *SharedMemory::Of(*slice.buffer.get());
      number = memory.AddTo(&word_);
      word_.add_begin(memory.OffsetOf(slice.buffer->data()) + slice.offset);
      word_.add_length(slice.bytes);
      slice.buffer = BufferRef();  // the pin holds it
    } else if (slice.bytes >= kPlacedFrom && CopyToArea(slice)) {
      slice.buffer = BufferRef();
    } else {
      word_.add_begin(0);
      word_.add_length(slice.bytes);
    }
    word_.add_in_segment(number);
  }
}

size_t Responder::Trim(size_t slices) {
  if (static_cast<size_t>(word_.begin_size()) > slices) v1::SharedPayload().Swap(&word_);
  return encoder_.Trim(slices);
}

}  // namespace cohort
