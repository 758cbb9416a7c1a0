#include "common/variables/remote_access_connection.h"

#include <unistd.h>

#include <utility>

#include "common/base/status.h"

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

PsConnection::PsConnection(uint32_t ps, std::string address, Callbacks callbacks)
    : ps_(ps), address_(std::move(address)), callbacks_(std::move(callbacks)) {}

absl::Status PsConnection::Open(bool allow_insecure, CompletionLoop* loop) {
  StreamClient::Options options;
  options.allow_insecure = allow_insecure;
  COHORT_ASSIGN_OR_RETURN(client_, StreamClient::Create(address_, options));
  StreamClient::OpenOptions open;
  open.wait_for_ready = false;
  stream_ = client_->Open("/cohort.v1.ParameterServer/PushPull", this, loop, open);
  return absl::OkStatus();
}

void PsConnection::Send(std::span<const ExchangeMessage> messages, PushPullEncoder* encoder,
                        PayloadLease* lease) {
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) {
      encoder->BeginPayload();
      encoder->AppendBorrowed(bytes.data(), bytes.size(), lease);
    }
    stream_->Send(encoder->Finish(message.header));
  }
}

void PsConnection::Abandon() {
  abandoned_ = true;
  stream_->Abort();
}

void PsConnection::OnFrame(Frame frame) {
  if (abandoned_) return;
  const absl::Status decoded = decoder_.Decode(std::move(frame), &header_);
  if (!decoded.ok()) {  // the peer is no parameter server of ours
    stream_->Abort();
    return;
  }
  bytes_received_ += decoder_.payload_bytes();
  pieces_.clear();
  ends_.clear();
  fields_.clear();
  for (size_t i = 0; i < decoder_.payload_count(); ++i) {
    decoder_.payload(i).ForEachSpan(
        [this](std::span<const uint8_t> span) { pieces_.push_back(span); });
    ends_.push_back(pieces_.size());
  }
  size_t begin = 0;
  for (const size_t end : ends_) {
    fields_.emplace_back(pieces_.data() + begin, end - begin);
    begin = end;
  }
  callbacks_.on_response(this, header_, fields_);
  decoder_.Clear();
}

void PsConnection::OnClosed(const absl::Status& status) {
  callbacks_.on_closed(this, status.ok() ? Unavailable("the server closed the stream") : status);
}

}  // namespace cohort
