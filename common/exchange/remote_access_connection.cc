#include "common/exchange/remote_access_connection.h"

#include <unistd.h>

#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

std::string PsConnection::ChooseAddress(const ServerRoute& route, const std::string& host_id,
                                        bool avoid_unix) {
  const bool same_host = !host_id.empty() && route.host_id == host_id;
  if (avoid_unix || !same_host || route.unix_socket.empty() ||
      access(route.unix_socket.c_str(), R_OK | W_OK) != 0) {
    return route.address;
  }
  return "unix:" + route.unix_socket;
}

PsConnection::PsConnection(uint32_t ps, uint64_t incarnation, std::string address,
                           const Sharing& sharing, Callbacks callbacks, CodecCounters* counters)
    : counters_(counters),
      ps_(ps),
      incarnation_(incarnation),
      address_(std::move(address)),
      sharing_(sharing),
      callbacks_(std::move(callbacks)),
      decoder_(counters),
      fields_(256) {}  // enough for the slices of usual responses, whose number varies

absl::Status PsConnection::Open(const StreamClient::Options& options, CompletionLoop* loop) {
  COHORT_ASSIGN_OR_RETURN(client_, StreamClient::Create(address_, options));
  StreamClient::OpenOptions open;
  open.wait_for_ready = false;
  open.metadata[kProtocolVersionKey] = kProtocolVersion.ToString();
  if (incarnation_ != 0) open.metadata[kPsIncarnationKey] = IncarnationText(incarnation_);
  stream_ = client_->Open("/cohort.v1.ParameterServer/PushPull", this, loop, open);
  return absl::OkStatus();
}

void PsConnection::Send(std::span<const ExchangeMessage> messages, PushPullEncoder* encoder,
                        PayloadLoan* loan) {
  ++unanswered_;
  moved_before_ = stream_->moved();
  size_t rounded = 0;
  size_t total = 0;
  size_t in_place = 0;
  bool in_area = false;
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) {
      if (shared_.InPlace(bytes, sharing_.areas) != nullptr) {
        in_place += bytes.size();
        continue;
      }
      // Before the server has mapped an area, what is there travels through the socket.
      if (!shared_.accepted() && sharing_.areas->Find(bytes.data()) != nullptr) {
        in_area = true;
        continue;
      }
      rounded += SharedSegment::Aligned(bytes.size());
      total += bytes.size();
    }
  }
  const bool place =
      on_unix_socket() && shared_.BeginRequest(rounded, /*always=*/sharing_.weights->count() > 0 ||
                                                            in_place > 0 || in_area);
  if (place) {
    counters_->bytes_placed.fetch_add(static_cast<int64_t>(total));
    counters_->bytes_in_place.fetch_add(static_cast<int64_t>(in_place));
  }
  for (const ExchangeMessage& message : messages) {
    v1::SharedPayload* word = nullptr;
    if (place) {
      word = shared_.Place(message.payload, message.header.sequence(), sharing_.areas);
    } else {
      for (const Bytes& bytes : message.payload) {
        encoder->BeginPayload();
        encoder->AppendBorrowed(bytes.data(), bytes.size(), loan);
      }
      if (on_unix_socket()) word = shared_.Offer();
    }
    if (word != nullptr && &message == &messages.front()) AddMapped(messages, word);
    stream_->Send(encoder->Finish(message.header, word));
  }
}

// The first message of a request says what the server may lend, and which areas it may map.
void PsConnection::AddMapped(std::span<const ExchangeMessage> messages, v1::SharedPayload* word) {
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) {
      if (bytes.size() < SharedPayloadClient::kLeastInPlace) continue;
      const SharedMemory* const memory = sharing_.areas->Find(bytes.data());
      if (memory != nullptr) memory->AddTo(word);
    }
  }
  if (sharing_.weights->failed()) return;
  const v1::PushPullHeader& header = messages.front().header;
  sharing_.weights->DropIdle(header.sequence(), header.reading());
  word->set_client(sharing_.client);
  sharing_.weights->AddTo(word);
}

BytesMoved PsConnection::moved() const {
  const Stream::Moved now = stream_->moved();
  return {.sent = now.sent - moved_before_.sent, .received = now.received - moved_before_.received};
}

void PsConnection::Abandon() {
  abandoned_ = true;
  stream_->Abort();
}

void PsConnection::OnFrame(Frame frame) {
  if (abandoned_) return;
  const absl::Status decoded = decoder_.Decode(std::move(frame), &header_);
  if (!decoded.ok() || !FindFields()) {  // the peer is no parameter server of ours
    stream_->Abort();
    return;
  }
  answered_ = true;
  for (size_t i = 0; i < fields_.size(); ++i) {
    const size_t bytes = fields_.bytes(i);
    if (fields_.in_peers().empty() || fields_.in_peers()[i] == 0) {
      answer_bytes_ += SharedSegment::Aligned(bytes);
    }
  }
  if (!header_.more()) {
    if (unanswered_ > 0) --unanswered_;
    sharing_.areas->NoteAnswered(header_.sequence());
    shared_.OnAnswered(std::exchange(answer_bytes_, 0), std::exchange(mapped_more_, false));
    if (shared_.refused())
      ReportNotShared(Unavailable("the server cannot map memory of this process"));
  }
  callbacks_.on_response(this, header_, fields_.all(), fields_.in_peers());
  decoder_.Clear();
}

// Finds the payloads of the response. Returns false if it contradicts itself.
bool PsConnection::FindFields() {
  const SharedSegment* segment = nullptr;
  if (decoder_.has_shared()) {
    const std::span<const uint8_t> word = decoder_.shared();
    if (!word_.ParseFromArray(word.data(), static_cast<int>(word.size()))) return false;
    segment = shared_.OnResponse(word_);
    const size_t before = sharing_.weights->count();
    const absl::Status mapped = sharing_.weights->Map(word_, header_.sequence());
    mapped_more_ = mapped_more_ || sharing_.weights->count() > before;
    if (!mapped.ok()) ReportNotShared(mapped);
  } else {
    word_.Clear();
  }
  return fields_.Find(decoder_, &word_, segment, sharing_.weights->Find(word_)).ok();
}

void PsConnection::ReportNotShared(const absl::Status& why) {
  if (!std::exchange(reported_, true)) callbacks_.on_not_shared(this, why);
}

void PsConnection::OnClosed(const absl::Status& status) {
  callbacks_.on_closed(this, status.ok() ? Unavailable("the server closed the stream") : status);
}

}  // namespace cohort
