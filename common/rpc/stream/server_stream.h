#ifndef COHORT_COMMON_RPC_STREAM_SERVER_STREAM_H_
#define COHORT_COMMON_RPC_STREAM_SERVER_STREAM_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cluster/security.h"
#include "common/rpc/stream/stream_base.h"

namespace cohort {

// Methods that gRPC knows by name, so that their calls go to the completion queue that requests
// them. A call of any other method goes to any queue that has requested a generic one.
class RegisteredMethods final : public grpc::Service {
 public:
  explicit RegisteredMethods(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) {
      AddMethod(new grpc::internal::RpcServiceMethod(
          name.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
      MarkMethodAsync(static_cast<int>(&name - names_.data()));
    }
  }

  size_t size() const { return names_.size(); }
  const std::string& name(size_t method) const { return names_[method]; }
  // Requests the next call of one method, on `queue`.
  void Request(size_t method, grpc::ServerContext* context,
               grpc::internal::ServerAsyncStreamingInterface* call,
               grpc::ServerCompletionQueue* queue, void* tag) {
    RequestAsyncBidiStreaming(static_cast<int>(method), context, call, queue, queue, tag);
  }

 private:
  const std::vector<std::string> names_;
};

// The server end of a stream. Before a client opens it, it is a waiting accept of a loop.
class ServerStream final : public StreamBase {
 public:
  // Called when a client has opened the stream. Makes the next accept, and calls Serve or Refuse on
  // this one.
  using OnAccept = std::function<void(const std::shared_ptr<ServerStream>& stream)>;

  ServerStream(CompletionLoop* loop, const TransportOptions& options, OnAccept on_accept);

  // Waits for a client that calls a method that is not registered, or the given one.
  void Accept(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue);
  void Accept(RegisteredMethods* methods, size_t method, grpc::ServerCompletionQueue* queue);

  const grpc::ServerContextBase& context() const { return context_; }
  const std::string& method() const {
    return registered_method_.empty() ? context_.method() : registered_method_;
  }
  CompletionLoop* loop() const { return loop_; }
  // Sets what peer() and CheckClaim answer. Before Serve.
  void Admit(std::optional<PeerIdentity> identity, const Security* security) {
    identity_ = std::move(identity);
    security_ = security;
  }
  void Serve(std::unique_ptr<StreamHandler> handler);
  void Refuse(const absl::Status& status) { Reject(status); }

  void Close(absl::Status status) override;
  void Abort() override;
  StreamPeer peer() const override { return {.address = address_, .identity = identity_}; }
  absl::Status CheckClaim(Task claimed) const override;
  std::string metadata(const std::string& key) const override;

 protected:
  void StartRead(Frame* frame, void* tag) override;
  void StartWrite(const Frame& frame, void* tag) override;
  void StartHalfClose(void* tag) override {}
  void StartFinish(const absl::Status& status, void* tag) override;
  void CancelCall() override { context_.TryCancel(); }
  std::string PeerAddress() const override { return address_; }
  bool EndOfReadsBreaks() const override { return false; }
  bool PeerJoinsPieces() const override { return context_.client_metadata().count(kPiecesKey) > 0; }
  SendOp NextWhenFlushed() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status PeerStatus() override;
  void ReleaseHandler() override { owned_handler_.reset(); }

 private:
  void OnAccepted(bool ok);
  void OnNotice(bool ok);

  OnAccept on_accept_;
  std::string registered_method_;
  std::string address_;  // constant once accepted_ is true
  std::optional<PeerIdentity> identity_;
  const Security* security_ = nullptr;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter call_{&context_};
  std::unique_ptr<StreamHandler> owned_handler_;
  std::atomic<bool> accepted_{false};
  Event accepted_event_{this, static_cast<Event::Method>(&ServerStream::OnAccepted)};
  Event notice_event_{this, static_cast<Event::Method>(&ServerStream::OnNotice)};
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_SERVER_STREAM_H_
