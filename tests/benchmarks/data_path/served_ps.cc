#include "tests/benchmarks/data_path/served_ps.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/cluster/protocol_version.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"

namespace cohort::bench {
namespace {

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "a parameter server for measurements: %s\n", what.c_str());
  std::exit(69);
}

}  // namespace

// The chief's stream, for as long as it takes.
class ServedPs::Chief : public StreamHandler {
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
      Die("it does not answer");
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

ServedPs::ServedPs(const Options& options) {
  ParameterServer::Options server_options;
  server_options.listen = options.listen;
  server_options.index = options.index;
  server_options.threads = options.threads;
  server_options.incarnation = 1 + options.index;
  server_options.log = log_.get();
  auto server = ParameterServer::Start(std::move(server_options));
  if (!server.ok()) Die(server.status().ToString());
  server_ = *std::move(server);
  const std::string& address = options.listen.front();
  Chief chief(address.starts_with("unix:") ? address : fmt::format("127.0.0.1:{}", port()));
  v1::ChiefToPs adopt;
  adopt.mutable_adopt()->set_job("benchmark");
  // A server obeys only a chief whose checkpoint directory it sees.
  const std::string directory =
      (std::filesystem::temp_directory_path() / fmt::format("cohort-bench-{}", getpid())).string();
  const auto token = CreateDirectoryToken(directory, /*nonce=*/1);
  if (!token.ok()) Die(token.status().ToString());
  adopt.mutable_adopt()->set_checkpoint_dir(directory);
  adopt.mutable_adopt()->set_directory_token(*token);
  SetProtocolVersion(adopt.mutable_adopt());
  const bool adopted = chief.Ask(adopt).has_hello();
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  if (!adopted) Die("it was not adopted");
  v1::ChiefToPs assign;
  *assign.mutable_assign()->mutable_layout() = options.layout;
  assign.mutable_assign()->set_ps(options.index);
  assign.mutable_assign()->set_timeline(1);
  assign.mutable_assign()->set_term(1);
  const v1::PsToChief answer = chief.Ask(assign);
  if (!answer.has_assigned()) Die("no tablets: " + answer.ShortDebugString());
}

ServedPs::~ServedPs() = default;

}  // namespace cohort::bench
