#include "common/exchange/shared_payload_client.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

// Leaves room for some growth.
size_t WithRoom(size_t bytes) { return SharedSegment::Aligned(bytes + bytes / 8 + (4 << 10)); }

}  // namespace

bool SharedPayloadClient::Fits(size_t bytes) const {
  if (segment_ == nullptr || unanswered_ > 0) return false;
  const size_t wanted = sent_.bytes() + Received();
  if (segment_->size() > kShrinkFrom && wanted < segment_->size() / 4) return false;
  return SharedSegment::kAlignment + bytes <= answer_begin_ &&
         Received() <= segment_->size() - answer_begin_;
}

bool SharedPayloadClient::BeginRequest(size_t bytes, bool always) {
  sent_.Add(bytes);
  const bool fits = Fits(bytes);
  ++unanswered_;
  const size_t most = std::max(sent_.bytes(), Received());
  // The server may still read what an unanswered request has placed, and write the answer to it.
  if (!fits) {
    segment_ = nullptr;
    accepted_ = false;
    if (!refused_ && (always || most >= kLeastBytes) && most <= kMostBytes) MakeSegment();
  }
  next_ = SharedSegment::kAlignment;
  return accepted_;
}

void SharedPayloadClient::MakeSegment() {
  answer_begin_ = SharedSegment::kAlignment + WithRoom(sent_.bytes());
  auto segment = SharedSegment::Create(answer_begin_ + WithRoom(Received()));
  first_ = false;
  refused_ = !segment.ok();  // there is no memory for it: the socket is used
  if (segment.ok()) segment_ = *std::move(segment);
}

v1::SharedPayload* SharedPayloadClient::Offer() {
  if (segment_ == nullptr) return nullptr;
  word_.Clear();
  word_.set_id(segment_->id());
  word_.set_pid(static_cast<uint32_t>(getpid()));
  word_.set_fd(static_cast<uint32_t>(segment_->fd()));
  word_.set_bytes(segment_->size());
  word_.set_answer_begin(answer_begin_);
  word_.set_answer_bytes(segment_->size() - answer_begin_);
  return &word_;
}

const SharedMemory* SharedPayloadClient::InPlace(const Bytes& bytes, const PushAreas* areas) const {
  if (areas == nullptr || bytes.size() < kLeastInPlace) return nullptr;
  const SharedMemory* const memory = areas->Find(bytes.data());
  if (memory == nullptr) return nullptr;
  const bool mapped = std::ranges::find(mapped_, memory->segment().id()) != mapped_.end();
  return mapped ? memory : nullptr;
}

v1::SharedPayload* SharedPayloadClient::Place(std::span<const Bytes> payload, uint64_t sequence,
                                              PushAreas* areas) {
  Offer();
  for (const Bytes& bytes : payload) {
    word_.add_length(bytes.size());
    if (const SharedMemory* const memory = InPlace(bytes, areas)) {
      while (word_.in_segment_size() + 1 < word_.length_size()) word_.add_in_segment(0);
      word_.add_in_segment(memory->AddTo(&word_));
      word_.add_begin(memory->OffsetOf(bytes.data()));
      areas->NoteSent(sequence, memory);
      continue;
    }
    std::memcpy(segment_->At(next_, bytes.size()).data(), bytes.data(), bytes.size());
    word_.add_begin(next_);
    if (word_.in_segment_size() > 0) word_.add_in_segment(0);
    next_ += SharedSegment::Aligned(bytes.size());
  }
  return &word_;
}

const SharedSegment* SharedPayloadClient::OnResponse(const v1::SharedPayload& word) {
  if (segment_ == nullptr || word.id() != segment_->id()) return nullptr;
  accepted_ = true;
  mapped_.assign(word.mapped().begin(), word.mapped().end());
  return segment_.get();
}

void SharedPayloadClient::OnAnswered(size_t payload_bytes, bool mapped_more) {
  if (mapped_more) {
    received_ = Largest();
  } else {
    received_.Add(payload_bytes);
  }
  if (unanswered_ > 0) --unanswered_;
  if (segment_ != nullptr && !accepted_ && unanswered_ == 0) refused_ = true;
}

}  // namespace cohort
