// A real parameter server, adopted and given its tablets as a chief would.
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/rpc/completion_loop.h"
#include "common/rpc/frame_codec.h"
#include "common/rpc/stream_client.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/parameter_server.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

// One float variable of each size, each one shard on a tablet of its own.
v1::Layout MakeLayout(const std::vector<size_t>& sizes) {
  v1::Layout layout;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto index = static_cast<uint32_t>(i);
    auto* variable = layout.add_variables();
    variable->set_name(fmt::format("v{}", i));
    variable->set_dtype(v1::FLOAT32);
    variable->add_dims(static_cast<int64_t>(sizes[i] / sizeof(float)));
    variable->set_trainable(true);
    variable->mutable_initializer()->set_class_name("Zeros");
    auto* shard = layout.add_shards();
    shard->set_shard(index);
    shard->set_variable(index);
    shard->set_rows(sizes[i] / sizeof(float));
    shard->set_tablet(index);
    layout.add_tablets()->set_tablet(index);
  }
  layout.mutable_optimizer()->set_class_name("SGD");
  layout.mutable_optimizer()->set_learning_rate(0.01);
  layout.mutable_optimizer()->set_sparse_update("keras");
  return layout;
}

// The chief's stream, for as long as it takes.
class Chief : public StreamHandler {
 public:
  explicit Chief(const std::string& address) : client_(*StreamClient::Create(address, {})) {
    stream_ = client_->Open("/cohort.v1.ParameterServer/Control", this, &loop_);
  }
  ~Chief() override {
    stream_->Close(absl::OkStatus());
    loop_.RunUntil([this] { return closed_; }, Limit());
    loop_.Shutdown();
  }

  v1::PsToChief Ask(v1::ChiefToPs message) {
    message.set_generation(1);
    message.set_request(++request_);
    stream_->Send(SerializeToFrame(message));
    answer_.Clear();
    if (!loop_.RunUntil([this] { return closed_ || answer_.request() == request_; }, Limit()) ||
        closed_) {
      Die("the parameter server does not answer");
    }
    return answer_;
  }

  void OnFrame(Frame frame) override {
    if (!ParseFromFrame(frame, &answer_).ok()) Die("an answer that cannot be read");
  }
  void OnClosed(const absl::Status&) override { closed_ = true; }

 private:
  static CompletionLoop::Clock::time_point Limit() {
    return CompletionLoop::Clock::now() + std::chrono::seconds(60);
  }

  CompletionLoop loop_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;
  v1::PsToChief answer_;
  uint64_t request_ = 0;
  bool closed_ = false;
};

class PsServer final : public Server {
 public:
  PsServer(const std::string& address, const std::vector<size_t>& sizes) {
    ParameterServer::Options options;
    options.listen = {address};
    options.incarnation = 1;
    options.log = log_.get();
    auto server = ParameterServer::Start(std::move(options));
    if (!server.ok()) Die(server.status().ToString());
    server_ = *std::move(server);
    Chief chief(address.starts_with("unix:") ? address
                                             : fmt::format("127.0.0.1:{}", server_->port()));
    v1::ChiefToPs adopt;
    adopt.mutable_adopt()->set_job("benchmark");
    if (!chief.Ask(adopt).has_hello()) Die("the parameter server was not adopted");
    v1::ChiefToPs assign;
    *assign.mutable_assign()->mutable_layout() = MakeLayout(sizes);
    assign.mutable_assign()->set_timeline(1);
    assign.mutable_assign()->set_term(1);
    const v1::PsToChief answer = chief.Ask(assign);
    if (!answer.has_assigned()) Die("no tablets: " + answer.ShortDebugString());
  }
  int port() const override { return server_->port(); }

 private:
  std::unique_ptr<Logger> log_ = Logger::Discard();
  std::unique_ptr<ParameterServer> server_;
};

}  // namespace

std::unique_ptr<Server> ServePs(const std::string& address, const std::vector<size_t>& sizes) {
  return std::make_unique<PsServer>(address, sizes);
}

}  // namespace cohort::bench
