#include "common/exchange/shared_payload_client.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

// Leaves room for some growth.
size_t WithRoom(size_t bytes) { return SharedSegment::Aligned(bytes + bytes / 8 + (4 << 10)); }

}  // namespace

bool SharedPayloadClient::BeginRequest(size_t bytes) {
  const bool fits = segment_ != nullptr && unanswered_ == 0 &&
                    SharedSegment::kAlignment + bytes <= answer_begin_ &&
                    most_received_ <= segment_->size() - answer_begin_;
  most_sent_ = std::max(most_sent_, bytes);
  ++unanswered_;
  const size_t most = std::max(most_sent_, most_received_);
  // The server may still read what an unanswered request has placed, and write the answer to it.
  if (!fits) {
    segment_ = nullptr;
    accepted_ = false;
    if (!refused_ && most >= kLeastBytes && most <= kMostBytes) MakeSegment();
  }
  next_ = SharedSegment::kAlignment;
  return accepted_;
}

void SharedPayloadClient::MakeSegment() {
  answer_begin_ = SharedSegment::kAlignment + WithRoom(most_sent_);
  auto segment = SharedSegment::Create(answer_begin_ + WithRoom(most_received_));
  refused_ = !segment.ok();  // there is no memory for it: the socket is used
  if (segment.ok()) segment_ = *std::move(segment);
}

const v1::SharedPayload* SharedPayloadClient::Offer() {
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

const v1::SharedPayload* SharedPayloadClient::Place(std::span<const Bytes> payload) {
  Offer();
  for (const Bytes& bytes : payload) {
    std::memcpy(segment_->At(next_, bytes.size()).data(), bytes.data(), bytes.size());
    word_.add_begin(next_);
    word_.add_length(bytes.size());
    next_ += SharedSegment::Aligned(bytes.size());
  }
  return &word_;
}

const SharedSegment* SharedPayloadClient::OnResponse(const v1::SharedPayload& word) {
  if (segment_ == nullptr || word.id() != segment_->id()) return nullptr;
  accepted_ = true;
  return segment_.get();
}

void SharedPayloadClient::OnAnswered(size_t payload_bytes) {
  most_received_ = std::max(most_received_, payload_bytes);
  if (unanswered_ > 0) --unanswered_;
  if (segment_ != nullptr && !accepted_ && unanswered_ == 0) refused_ = true;
}

}  // namespace cohort
