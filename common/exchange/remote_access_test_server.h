#ifndef COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_TEST_SERVER_H_
#define COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_TEST_SERVER_H_

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/exchange/exchange_test_server.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/stream_server.h"

namespace cohort::exchange_test {

// A model server behind a real StreamServer. A test requests faults one at a time.
class RealServer {
 public:
  RealServer(ModelServer* model, Mutex* mu) : model_(model), mu_(mu) {}

  void Start(const std::string& unix_path = "", int port = 0) {
    StreamServer::Options options;
    options.listen = {fmt::format("127.0.0.1:{}", port)};
    if (security != nullptr) options.security = security;
    if (!unix_path.empty()) options.listen.push_back("unix:" + unix_path);
    auto server = StreamServer::Start(
        options, {{"/cohort.v1.ParameterServer/PushPull",
                   [this](std::shared_ptr<Stream> stream,
                          CompletionLoop*) -> std::unique_ptr<StreamHandler> {
                     const uint64_t own = incarnation;
                     if (own != 0 && stream->metadata(kPsIncarnationKey) != IncarnationText(own)) {
                       ++refused;
                       return nullptr;
                     }
                     ++streams;
                     return std::make_unique<Handler>(this, std::move(stream));
                   }}});
    if (!server.ok()) throw std::runtime_error(server.status().ToString());
    server_ = *std::move(server);
  }
  void Stop() { server_.reset(); }
  int port() const { return server_->port(); }

  std::shared_ptr<const Security> security;  // before Start
  std::atomic<uint64_t> incarnation{0};      // the one that a stream must name; 0: any
  std::atomic<int> refused{0};               // streams that named another incarnation
  std::atomic<int> streams{0};
  std::atomic<int> lose_requests{0};   // drop the stream before the request is looked at
  std::atomic<int> lose_responses{0};  // drop it after
  std::atomic<bool> silent{false};
  std::atomic<int> requests{0};

 private:
  class Handler : public StreamHandler {
   public:
    Handler(RealServer* server, std::shared_ptr<Stream> stream)
        : server_(server), stream_(std::move(stream)) {}
    void OnFrame(Frame frame) override {
      Request message;
      PushPullDecoder decoder;
      if (!decoder.Decode(std::move(frame), &message.header).ok()) return stream_->Abort();
      for (size_t i = 0; i < decoder.payload_count(); ++i) {
        std::string& field = message.payload.emplace_back(decoder.payload(i).size(), '\0');
        decoder.payload(i).CopyTo(field.data());
      }
      pending_.push_back(std::move(message));
      if (pending_.back().header.more()) return;
      ++server_->requests;
      if (server_->silent) return pending_.clear();
      if (server_->lose_requests > 0) {
        --server_->lose_requests;
        return stream_->Abort();
      }
      std::vector<Response> responses;
      {
        MutexLock lock(server_->mu_);
        responses = server_->model_->Handle(pending_);
      }
      pending_.clear();
      if (server_->lose_responses > 0) {
        --server_->lose_responses;
        return stream_->Abort();
      }
      for (const Response& response : responses) {
        PushPullEncoder encoder;
        for (const std::string& field : response.payload) {
          encoder.BeginPayload();
          BufferRef bytes = BufferRef::Allocate(field.size());
          std::memcpy(bytes->data(), field.data(), field.size());
          encoder.Append(std::move(bytes), 0, field.size());
        }
        stream_->Send(encoder.Finish(response.header));
      }
    }
    void OnClosed(const absl::Status&) override {}

   private:
    RealServer* const server_;
    const std::shared_ptr<Stream> stream_;
    std::vector<Request> pending_;
  };

  ModelServer* const model_;
  Mutex* const mu_;
  std::unique_ptr<StreamServer> server_;
};

}  // namespace cohort::exchange_test

#endif  // COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_TEST_SERVER_H_
