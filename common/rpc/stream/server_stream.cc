#include "common/rpc/stream/server_stream.h"

#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/grpc_status.h"

namespace cohort {

ServerStream::ServerStream(CompletionLoop* loop, const TransportOptions& options,
                           OnAccept on_accept)
    : StreamBase(loop, options), on_accept_(std::move(on_accept)) {}

void ServerStream::Accept(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue) {
  context_.AsyncNotifyWhenDone(notice_event_.Arm());
  service->RequestCall(&context_, &call_, queue, queue, accepted_event_.Arm());
}

void ServerStream::Accept(RegisteredMethods* methods, size_t method,
                          grpc::ServerCompletionQueue* queue) {
  registered_method_ = methods->name(method);
  context_.AsyncNotifyWhenDone(notice_event_.Arm());
  methods->Request(method, &context_, &call_, queue, accepted_event_.Arm());
}

void ServerStream::OnAccepted(bool ok) {
  if (!ok) {
    // The server is shutting down; no notice will arrive.
    loop_->RemoveStream(this);
    return;
  }
  {
    MutexLock lock(&mu_);
    notice_pending_ = true;
  }
  address_ = context_.peer();
  accepted_.store(true, std::memory_order_release);
  const OnAccept on_accept = std::move(on_accept_);
  on_accept(std::static_pointer_cast<ServerStream>(shared_from_this()));
}

void ServerStream::Serve(std::unique_ptr<StreamHandler> handler) {
  owned_handler_ = std::move(handler);
  handler_ = owned_handler_.get();
  if (handler_->JoinsPieces() && PeerJoinsPieces()) {
    context_.AddInitialMetadata(kPiecesKey, "1");
    JoinPieces();
  }
  OnOpen(true);
}

void ServerStream::Close(absl::Status status) {
  if (accepted_.load(std::memory_order_acquire)) StreamBase::Close(std::move(status));
}

void ServerStream::Abort() {
  if (accepted_.load(std::memory_order_acquire)) StreamBase::Abort();
}

absl::Status ServerStream::CheckClaim(Task claimed) const {
  return security_->CheckClaim(identity_, address_, claimed);
}

std::string ServerStream::metadata(const std::string& key) const {
  const auto& all = context_.client_metadata();
  const auto found = all.find(key);
  return found == all.end() ? "" : std::string(found->second.data(), found->second.size());
}

void ServerStream::StartRead(Frame* frame, void* tag) { call_.Read(&frame->bytes(), tag); }

void ServerStream::StartWrite(const Frame& frame, void* tag) { call_.Write(frame.bytes(), tag); }

void ServerStream::StartFinish(const absl::Status& status, void* tag) {
  std::string failure;
  const grpc::Status translated = ToGrpcStatus(status, &failure);
  if (!failure.empty()) context_.AddTrailingMetadata(kFailureMetadataKey, failure);
  call_.Finish(translated, tag);
}

StreamBase::SendOp ServerStream::NextWhenFlushed() {
  const bool peer_ended = read_ended_ && (!stay_open_ || !notice_pending_);
  return closing_ || peer_ended || broken_ ? SendOp::kFinish : SendOp::kNone;
}

void ServerStream::OnNotice(bool ok) {
  {
    MutexLock lock(&mu_);
    notice_pending_ = false;
  }
  SendNext();  // ends a stream that stayed open
  CloseIfDone();
}

absl::Status ServerStream::PeerStatus() {
  MutexLock lock(&mu_);
  // If our status was sent, it is the end of the stream. gRPC may still report a cancel, because
  // the client drops the stream when it receives the status.
  if (closing_ && finish_ok_) return close_status_;
  if (!context_.IsCancelled()) return close_status_;
  return Unavailable("the client {} cancelled the stream, or the connection was lost",
                     PeerAddress());
}

}  // namespace cohort
