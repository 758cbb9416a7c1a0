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
                           Callbacks callbacks, CodecCounters* counters)
    : counters_(counters),
      ps_(ps),
      incarnation_(incarnation),
      address_(std::move(address)),
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
  size_t rounded = 0;
  size_t total = 0;
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) {
      rounded += SharedSegment::Aligned(bytes.size());
      total += bytes.size();
    }
  }
  const bool place = on_unix_socket() && shared_.BeginRequest(rounded);
  if (place) counters_->bytes_placed.fetch_add(static_cast<int64_t>(total));
  for (const ExchangeMessage& message : messages) {
    if (place) {
      stream_->Send(encoder->Finish(message.header, shared_.Place(message.payload)));
      continue;
    }
    for (const Bytes& bytes : message.payload) {
      encoder->BeginPayload();
      encoder->AppendBorrowed(bytes.data(), bytes.size(), loan);
    }
    stream_->Send(encoder->Finish(message.header, on_unix_socket() ? shared_.Offer() : nullptr));
  }
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
    bytes_received_ += bytes;
    answer_bytes_ += SharedSegment::Aligned(bytes);
  }
  if (!header_.more()) {
    if (unanswered_ > 0) --unanswered_;
    shared_.OnAnswered(std::exchange(answer_bytes_, 0));
  }
  callbacks_.on_response(this, header_, fields_.all());
  decoder_.Clear();
}

// Finds the payloads of the response. Returns false if it contradicts itself.
bool PsConnection::FindFields() {
  const SharedSegment* segment = nullptr;
  if (decoder_.has_shared()) {
    const std::span<const uint8_t> word = decoder_.shared();
    if (!word_.ParseFromArray(word.data(), static_cast<int>(word.size()))) return false;
    segment = shared_.OnResponse(word_);
  }
  return fields_.Find(decoder_, &word_, segment).ok();
}

void PsConnection::OnClosed(const absl::Status& status) {
  callbacks_.on_closed(this, status.ok() ? Unavailable("the server closed the stream") : status);
}

}  // namespace cohort
