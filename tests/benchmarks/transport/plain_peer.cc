// Plain gRPC as its tutorial has it: generated code, synchronous calls, tensors as protobuf
// `bytes`.
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <deque>
#include <thread>

#include "bench.grpc.pb.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

class Service final : public Bench::Service {
 public:
  grpc::Status Exchange(grpc::ServerContext*, const ExchangeRequest* request,
                        ExchangeResponse* response) override {
    if (request->pull_bytes() > 0) response->set_payload(weights_.data(), request->pull_bytes());
    return grpc::Status::OK;
  }

 private:
  const std::vector<char> weights_ = std::vector<char>(kLargest, 'w');
};

class PlainServer final : public Server {
 public:
  explicit PlainServer(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) Die("the plain server cannot listen");
  }
  int port() const override { return port_; }

 private:
  int port_ = 0;
  Service service_;
  std::unique_ptr<grpc::Server> server_;
};

class PlainClient final : public Client {
 public:
  explicit PlainClient(const std::string& address) : gradient_(kLargest, 'g') {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = Bench::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  void Run(Op op, size_t bytes, int count, int in_flight) override {
    std::vector<std::thread> threads;
    while (messages_.size() < static_cast<size_t>(in_flight)) messages_.emplace_back();
    for (int i = 1; i < in_flight; ++i) {
      threads.emplace_back([=, this] { RunSome(&messages_[i], op, bytes, count / in_flight); });
    }
    RunSome(&messages_[0], op, bytes, count - count / in_flight * (in_flight - 1));
    for (auto& thread : threads) thread.join();
  }

 private:
  // The messages of one thread, which reuses them.
  struct Messages {
    ExchangeRequest request;
    ExchangeResponse response;
  };

  void RunSome(Messages* messages, Op op, size_t bytes, int count) {
    ExchangeRequest& request = messages->request;
    ExchangeResponse& response = messages->response;
    request.Clear();
    for (int i = 0; i < count; ++i) {
      grpc::ClientContext context;
      if (op == Op::kPull) {
        request.set_pull_bytes(bytes);
      } else {
        request.set_payload(gradient_.data(), bytes);
      }
      const grpc::Status status = stub_->Exchange(&context, request, &response);
      if (!status.ok()) Die("plain gRPC: " + status.error_message());
      if (op == Op::kPull && response.payload().size() != bytes) Die("plain gRPC: wrong size");
    }
  }

  const std::vector<char> gradient_;
  std::deque<Messages> messages_;
  std::unique_ptr<Bench::Stub> stub_;
};

}  // namespace

std::unique_ptr<Server> ServePlain(const std::string& address) {
  return std::make_unique<PlainServer>(address);
}
std::unique_ptr<Client> DialPlain(const std::string& address) {
  return std::make_unique<PlainClient>(address);
}

}  // namespace cohort::bench
