#ifndef COHORT_COMMON_RPC_STREAM_REGISTERED_METHODS_H_
#define COHORT_COMMON_RPC_STREAM_REGISTERED_METHODS_H_

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>

#include <string>
#include <vector>

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

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_REGISTERED_METHODS_H_
