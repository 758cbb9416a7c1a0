#include "ps_server/request_message.h"

#include <cstring>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"
#include "proto/shared_payload.pb.h"

namespace cohort {
namespace {

constexpr size_t kAlignment = 8;
// Smaller payloads are cheaper to copy than to read in pieces.
constexpr size_t kPiecesFrom = 16 << 10;
// A larger copy is given back when its request ends: it is for one request in many.
constexpr size_t kKeptStaging = 1 << 20;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsAligned(const uint8_t* bytes) {
  return reinterpret_cast<uintptr_t>(bytes) % kAlignment == 0;
}

}  // namespace

// The fields of push entries come first, in order: two of a sparse entry, none of an entry without
// values. The keys of pulls follow.
absl::Status RequestMessage::ReadPayload(const v1::PushPullHeader& header,
                                         const v1::SharedPayload* word,
                                         const SharedSegment* segment, PeerSegments* peers,
                                         BufferPool* pool) {
  const bool in_peers = word != nullptr && peers != nullptr;
  COHORT_RETURN_IF_ERROR(
      fields.Find(decoder, word, segment,
                  in_peers ? peers->Find(*word) : std::span<const SharedSegment* const>()));
  payload.assign(fields.size(), {});
  bytes_to_copy_ = 0;
  size_t next = 0;
  for (const v1::PushSection& section : header.push().sections()) {
    for (const v1::PushEntry& entry : section.entries()) {
      if (entry.kind() == v1::RECORD_ONLY) continue;
      if (entry.sparse()) TakeField(next++, /*dense_gradient=*/false);
      TakeField(next++, !entry.sparse() && entry.kind() == v1::GRADIENT);
    }
  }
  while (next < fields.size()) TakeField(next++, /*dense_gradient=*/false);
  CopyFields(pool);
  return absl::OkStatus();
}

// Leaves a field where it is, in one piece or in several, or counts it among those to copy: these
// have a size, but no address yet. In shared memory the client could change keys after they were
// checked, so only the values of dense gradients stay there.
void RequestMessage::TakeField(size_t field, bool dense_gradient) {
  if (field >= fields.size()) return;  // the header names more fields than there are
  const PayloadFields::Pieces pieces = fields[field];
  const bool may_stay = dense_gradient || !fields.in_shared_memory();
  if (pieces.size() == 1 && may_stay && IsAligned(pieces[0].data())) {
    payload[field] = pieces[0];
    fields.Forget(field);
    return;
  }
  const size_t bytes = fields.bytes(field);
  if (dense_gradient && bytes >= kPiecesFrom) return;
  payload[field] = {static_cast<const uint8_t*>(nullptr), bytes};
  bytes_to_copy_ += Aligned(bytes);
}

void RequestMessage::CopyFields(BufferPool* pool) {
  if (bytes_to_copy_ == 0) return;
  if (!staging || staging->size() < bytes_to_copy_) staging = pool->Allocate(bytes_to_copy_);
  uint8_t* to = staging->data();
  size_t copied = 0;
  for (size_t i = 0; i < payload.size(); ++i) {
    const size_t bytes = payload[i].size();
    if (payload[i].data() != nullptr || bytes == 0) continue;
    payload[i] = {to, bytes};
    uint8_t* next = to;
    for (const PayloadFields::Bytes& piece : fields[i]) {
      std::memcpy(next, piece.data(), piece.size());
      next += piece.size();
    }
    fields.Forget(i);
    to += Aligned(bytes);
    copied += bytes;
  }
  if (counters != nullptr) {
    counters->bytes_copied.fetch_add(static_cast<int64_t>(copied), std::memory_order_relaxed);
  }
}

size_t RequestMessage::own_bytes() const {
  return sizeof(*this) + decoder.own_bytes() + fields.own_bytes() +
         payload.capacity() * sizeof(payload[0]);
}

size_t RequestMessage::held_bytes() const {
  return own_bytes() + decoder.frame_bytes() + (staging ? staging->size() : 0);
}

RequestMessage* RequestMessages::Next() {
  ++count_;
  if (used_ == messages_.size()) {
    messages_.push_back(std::make_unique<RequestMessage>(counters_, /*small=*/used_ > 0));
  }
  return messages_[used_++].get();
}

void RequestMessages::KeepNewest() {
  RequestMessage* const message = messages_[used_ - 1].get();
  if (message->payload.empty()) {
    message->decoder.Clear();
    --used_;
  } else {
    kept_bytes_ += message->held_bytes();
  }
}

size_t RequestMessages::held_bytes() const {
  size_t sum = 0;
  for (const auto& message : messages_) sum += message->held_bytes();
  return sum;
}

void RequestMessages::Clear() {
  for (size_t i = 0; i < used_; ++i) {
    RequestMessage* const message = messages_[i].get();
    message->decoder.Clear();
    const bool large = message->staging && message->staging->size() > kKeptStaging;
    if (count_ > 1 || large) message->staging = BufferRef();
  }
  used_ = 0;
  count_ = 0;
  kept_bytes_ = 0;
}

size_t RequestMessages::Trim(size_t bytes) {
  size_t kept = 0;
  std::erase_if(messages_, [&kept, bytes](const auto& message) {
    const size_t own = message->own_bytes();
    if (own > bytes - kept) return true;
    kept += own;
    return false;
  });
  for (const auto& message : messages_) kept += message->staging ? message->staging->size() : 0;
  return kept;
}

}  // namespace cohort
