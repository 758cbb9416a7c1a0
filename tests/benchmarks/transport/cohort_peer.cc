// Cohort's data path: PushPull streams with their headers, sections and statuses, read and written
// by the codec. The server here keeps one shard of floats and applies nothing; ps_peer.cc has the
// real one.
#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/stream_server.h"
#include "proto/parameter_server.pb.h"
#include "tests/benchmarks/transport/chunk_plan.h"
#include "tests/benchmarks/transport/peer.h"

namespace cohort::bench {
namespace {

constexpr char kMethod[] = "/cohort.v1.ParameterServer/PushPull";

// Answers pulls of the first `count` floats, and takes pushes into a buffer of its own.
class Shard : public StreamHandler {
 public:
  explicit Shard(std::shared_ptr<Stream> stream)
      : stream_(std::move(stream)),
        weights_(BufferRef::Allocate(kLargest)),
        gradient_(BufferRef::Allocate(kLargest)) {
    std::memset(weights_->data(), 1, kLargest);
    std::memset(gradient_->data(), 1, kLargest);
  }

  void OnFrame(Frame frame) override {
    const absl::Status read = decoder_.Decode(std::move(frame), &request_);
    if (!read.ok()) return stream_->Close(read);
    if (request_.has_push() && !TakePush()) {
      return stream_->Close(InvalidArgument("a push of the wrong size"));
    }
    if (request_.has_pull()) AnswerPull();
    decoder_.Clear();
  }
  void OnClosed(const absl::Status&) override {}

 private:
  bool TakePush() {
    size_t payload = 0;
    for (const auto& section : request_.push().sections()) {
      for (const auto& entry : section.entries()) {
        const size_t bytes = entry.count() * sizeof(float);
        if (payload >= decoder_.payload_count() || decoder_.payload(payload).size() != bytes ||
            entry.begin() * sizeof(float) + bytes > kLargest) {
          return false;
        }
        decoder_.payload(payload++).CopyTo(gradient_->data() + entry.begin() * sizeof(float));
      }
    }
    if (request_.more()) return true;
    response_.Clear();
    response_.set_sequence(request_.sequence());
    auto* result = response_.add_pushes();
    result->set_status(v1::APPLIED);
    result->set_version(++version_);
    stream_->Send(encoder_.Finish(response_));
    return true;
  }

  void AnswerPull() {
    const uint64_t floats = request_.pull().sections(0).entries(0).count();
    const ChunkItem item = {.units = std::min(floats, kLargest / sizeof(float)),
                            .bytes_per_unit = sizeof(float)};
    plan_.Plan({&item, 1}, kChunk);
    for (size_t m = 0; m < plan_.message_count(); ++m) {
      const ChunkPart& part = plan_.message(m)[0];
      response_.Clear();
      response_.set_sequence(request_.sequence());
      response_.set_more(!plan_.is_last(m));
      auto* result = response_.add_pulls();
      result->set_status(v1::APPLIED);
      result->set_version(version_);
      auto* entry = result->add_entries();
      entry->set_begin(part.begin);
      entry->set_count(part.count);
      encoder_.BeginPayload();
      encoder_.Append(weights_, part.begin * sizeof(float), part.count * sizeof(float));
      stream_->Send(encoder_.Finish(response_));
    }
  }

  const std::shared_ptr<Stream> stream_;
  const BufferRef weights_;
  const BufferRef gradient_;
  uint64_t version_ = 0;
  PushPullDecoder decoder_;
  PushPullEncoder encoder_;
  ChunkPlan plan_;
  v1::PushPullHeader request_;
  v1::PushPullResponseHeader response_;
};

class CohortServer final : public Server {
 public:
  explicit CohortServer(const std::string& address) {
    StreamServer::Options options;
    options.listen = {address};
    auto server = StreamServer::Start(
        options, {{kMethod, [](std::shared_ptr<Stream> stream, CompletionLoop*) {
                     return std::make_unique<Shard>(std::move(stream));
                   }}});
    if (!server.ok()) Die(server.status().ToString());
    server_ = *std::move(server);
  }
  int port() const override { return server_->port(); }

 private:
  std::unique_ptr<StreamServer> server_;
};

class CohortClient final : public Client, public StreamHandler {
 public:
  CohortClient(const std::string& address, const std::vector<size_t>& sizes)
      : sizes_(sizes),
        decoder_(&counters_),
        encoder_(&counters_),
        weights_(kLargest, 1),
        gradient_(kLargest, 0) {
    auto client = StreamClient::Create(address, {});
    if (!client.ok()) Die(client.status().ToString());
    client_ = *std::move(client);
    stream_ = client_->Open(kMethod, this, &loop_);
  }
  ~CohortClient() override { loop_.Shutdown(); }

  void Run(Op op, size_t bytes, int count, int in_flight) override {
    done_ = 0;
    for (int sent = 0; done_ < count;) {
      for (; sent < count && sent - done_ < in_flight; ++sent) {
        op == Op::kPull ? SendPull(bytes) : SendPush(bytes);
      }
      const int before = done_;
      loop_.RunUntil([&] { return done_ > before; }, CompletionLoop::kForever);
    }
    payload_bytes_ += bytes * static_cast<size_t>(count);
  }

  std::string Account() override {
    std::string text = fmt::format(
        "per payload byte: {:.3f} copied by the receiver of pulls, {:.3f} shared and {:.3f} "
        "inlined by "
        "the sender of pushes; {} growths of the codec's memory in {} frames",
        1.0 * counters_.bytes_copied / payload_bytes_,
        1.0 * counters_.bytes_shared / payload_bytes_,
        1.0 * counters_.bytes_inlined / payload_bytes_, counters_.allocations.load(),
        counters_.frames_decoded + counters_.frames_encoded);
    for (auto* counter :
         {&counters_.bytes_copied, &counters_.bytes_shared, &counters_.bytes_inlined,
          &counters_.allocations, &counters_.frames_decoded, &counters_.frames_encoded}) {
      *counter = 0;
    }
    payload_bytes_ = 0;
    return text;
  }

  void OnFrame(Frame frame) override {
    const absl::Status read = decoder_.Decode(std::move(frame), &response_);
    if (!read.ok()) Die(read.ToString());
    if (response_.has_error()) Die("the server refuses: " + response_.error().message());
    for (const auto& result : response_.pushes()) {
      if (result.status() != v1::APPLIED) Die("a push failed: " + result.ShortDebugString());
    }
    size_t payload = 0;
    for (const auto& result : response_.pulls()) {
      if (result.status() != v1::APPLIED) Die("a pull failed: " + result.ShortDebugString());
      for (const auto& entry : result.entries()) {
        const size_t bytes = entry.count() * sizeof(float);
        if (decoder_.payload(payload).size() != bytes ||
            entry.begin() * sizeof(float) + bytes > kLargest) {
          Die("a pull of the wrong size");
        }
        decoder_.payload(payload++).CopyTo(weights_.data() + entry.begin() * sizeof(float));
      }
    }
    decoder_.Clear();
    if (!response_.more()) ++done_;
  }
  void OnClosed(const absl::Status& status) override {
    if (status.code() != absl::StatusCode::kCancelled) Die(status.ToString());
  }

 private:
  void SendPull(size_t bytes) {
    request_.Clear();
    request_.set_sequence(++sequence_);
    request_.set_generation(1);
    auto* section = request_.mutable_pull()->add_sections();
    section->set_tablet(ShardOf(bytes));
    section->set_term(1);
    auto* entry = section->add_entries();
    entry->set_shard(ShardOf(bytes));
    entry->set_count(bytes / sizeof(float));
    stream_->Send(encoder_.Finish(request_));
  }

  void SendPush(size_t bytes) {
    const ChunkItem item = {.units = bytes / sizeof(float), .bytes_per_unit = sizeof(float)};
    plan_.Plan({&item, 1}, kChunk);
    ++sequence_;
    for (size_t m = 0; m < plan_.message_count(); ++m) {
      const ChunkPart& part = plan_.message(m)[0];
      request_.Clear();
      request_.set_sequence(sequence_);
      request_.set_generation(1);
      request_.set_more(!plan_.is_last(m));
      auto* push = request_.mutable_push();
      push->mutable_id()->set_closure(sequence_);
      push->set_place(sequence_);
      push->set_timeline(1);
      push->set_weight(32);
      auto* section = push->add_sections();
      section->set_tablet(ShardOf(bytes));
      section->set_term(1);
      auto* entry = section->add_entries();
      entry->set_shard(ShardOf(bytes));
      entry->set_kind(v1::GRADIENT);
      entry->set_begin(part.begin);
      entry->set_count(part.count);
      encoder_.BeginPayload();
      encoder_.AppendBorrowed(gradient_.data() + part.begin * sizeof(float),
                              part.count * sizeof(float), &loan_);
      stream_->Send(encoder_.Finish(request_));
    }
  }

  uint32_t ShardOf(size_t bytes) const {
    return static_cast<uint32_t>(std::find(sizes_.begin(), sizes_.end(), bytes) - sizes_.begin());
  }

  const std::vector<size_t> sizes_;
  CodecCounters counters_;
  PushPullDecoder decoder_;
  PushPullEncoder encoder_;
  ChunkPlan plan_;
  v1::PushPullHeader request_;
  v1::PushPullResponseHeader response_;
  std::vector<char> weights_;
  const std::vector<char> gradient_;
  PayloadLoan loan_;
  size_t payload_bytes_ = 0;
  uint64_t sequence_ = 0;
  int done_ = 0;
  CompletionLoop loop_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;
};

}  // namespace

std::unique_ptr<Server> ServeCohort(const std::string& address) {
  return std::make_unique<CohortServer>(address);
}
std::unique_ptr<Client> DialCohort(const std::string& address, const std::vector<size_t>& sizes) {
  return std::make_unique<CohortClient>(address, sizes);
}

}  // namespace cohort::bench
