// Requests that take much longer than their timeout, over a link that is slow but moves.
#include <catch2/catch.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/exchange/exchange_test_world.h"
#include "common/exchange/remote_access.h"
#include "common/exchange/remote_access_test_server.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;

constexpr uint64_t kRows = 3000;
constexpr uint64_t kColumns = 1000;
constexpr double kMegabytes = kRows * kColumns * sizeof(float) / 1e6;
constexpr uint64_t kBytesPerSecond = 3'000'000;
constexpr int64_t kTimeoutUs = 1'000'000;

// A server of the model behind a slow link, and a layer of 12 MB.
class SlowLink {
 public:
  explicit SlowLink(Way way)
      : SlowLink({.kind = Fault::Kind::kRate, .way = way, .bytes_per_second = kBytesPerSecond}) {}
  explicit SlowLink(const Fault& fault, uint64_t chunk_bytes = ExchangeOptions().chunk_bytes) {
    world_.AddVariable("layer", {kRows, kColumns}, {{kRows, 0}});
    for (auto& server : real_) server.Start();
    auto proxy = FaultProxy::Start(real_[0].port());
    REQUIRE(proxy.ok());
    proxy_ = *std::move(proxy);
    proxy_->Inject(fault);
    world_.routes.mutable_servers(0)->set_address(fmt::format("127.0.0.1:{}", proxy_->port()));
    world_.routes.mutable_servers(1)->set_address(fmt::format("127.0.0.1:{}", real_[1].port()));
    LogOptions log;
    log.to_stderr = false;
    log.sink = [this](std::string_view line) { lines_.emplace_back(line); };
    log_ = *Logger::Create(log);
    RemoteAccessOptions options;
    options.exchange.request_timeout_us = kTimeoutUs;
    options.exchange.chunk_bytes = chunk_bytes;
    options.log = log_.get();
    remote_ = std::make_unique<RemoteAccess>(options);
    remote_->thread()->SetGeneration(1);
    remote_->thread()->SetRoutes(std::make_shared<v1::Routes>(world_.routes));
    access_ = remote_->ForProgram(world_.decls);
  }
  ~SlowLink() {
    access_.reset();
    remote_.reset();  // before the servers: it closes first
  }

  absl::Status Push() {
    const std::vector<float> ones(kRows * kColumns, 1);
    const PushItem item{3, PushKind::kGradient, false, {}, ones.data(), 0};
    PushStamp stamp;
    stamp.closure = 1;
    stamp.attempt = 1;
    stamp.timeline = 1;
    stamp.weight = 1;
    const PushBatch push{stamp, {&item, 1}};
    return access_->Exchange(&push, nullptr).status();
  }
  absl::Status Pull(std::vector<float>* values) {
    values->resize(kRows * kColumns);
    const PullItem item{3, false, {}, values->data()};
    const PullBatch pull{7, 0, {&item, 1}};
    return access_->Exchange(nullptr, &pull).status();
  }

  // What the requests have seen: nothing was sent twice, and one line says what is slow.
  void CheckOneRequest(const std::string& progress) {
    CHECK(remote_->counters().resends == 0);
    CHECK(remote_->counters().connections == 2);
    CHECK(real_[0].requests == 1);
    CHECK(world_.servers[0].duplicates == 0);
    REQUIRE(lines_.size() == 1);
    INFO(lines_[0]);
    CHECK(lines_[0].find("slow_request") != std::string::npos);
    CHECK(lines_[0].find(progress) != std::string::npos);
    CHECK(lines_[0].find(fmt::format("of {:.1f} MB in ", kMegabytes)) != std::string::npos);
  }

  const RemoteAccess& remote() const { return *remote_; }

  exchange_test::World world_;

 private:
  Mutex mu_;
  exchange_test::RealServer real_[2] = {{&world_.servers[0], &mu_}, {&world_.servers[1], &mu_}};
  std::unique_ptr<FaultProxy> proxy_;
  std::vector<std::string> lines_;
  std::unique_ptr<Logger> log_;
  std::unique_ptr<RemoteAccess> remote_;
  std::unique_ptr<VariableAccess> access_;
};

TEST_CASE("a push that takes many timeouts arrives once") {
  SlowLink link(Way::kToServer);
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(link.Push().ok());
  CHECK(std::chrono::steady_clock::now() - begin > std::chrono::microseconds(3 * kTimeoutUs));
  link.CheckOneRequest("the push to ps:0 has sent ");
  CHECK(link.world_.tablets[0].shards.at(6).back() == 1);
}

// The size of a push has no limit but memory, because it travels in pieces.
TEST_CASE("a push of hundreds of pieces whose link is cut in the middle is applied once") {
  constexpr uint64_t kPieceBytes = 32 << 10;
  SlowLink link({.kind = Fault::Kind::kCut, .way = Way::kToServer, .after_bytes = 7'000'000},
                kPieceBytes);
  REQUIRE(link.Push().ok());
  CHECK(link.remote().counters().resends == 1);
  CHECK(link.remote().codec_counters().frames_encoded > 2 * kMegabytes * 1e6 / kPieceBytes);
  CHECK(link.world_.servers[0].duplicates == 0);
  for (const float value : link.world_.tablets[0].shards.at(6)) REQUIRE(value == 1);
}

TEST_CASE("a pull that takes many timeouts is asked for once") {
  SlowLink link(Way::kToClient);
  link.world_.servers[0].chunk_elements = 500'000;  // messages of 2 MB, like those of a server
  link.world_.tablets[0].shards.at(6).back() = 5;
  std::vector<float> values;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(link.Pull(&values).ok());
  CHECK(std::chrono::steady_clock::now() - begin > std::chrono::microseconds(3 * kTimeoutUs));
  link.CheckOneRequest("the pull from ps:0 has received ");
  CHECK(values.back() == 5);
}

// 8 workers with a layer of 164 MB behind one server, whose link takes 50 MB/s each way: a request
// takes half a minute. Over a minute, so only tests/run.sh --all runs it.
TEST_CASE("eight workers share the slow link of a server", "[long]") {
  std::string job = RecommenderJob(/*epochs=*/2, 0);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    job.replace(job.find(from), from.size(), to);
  };
  replace("    - Dense: {units: 1, activation: sigmoid}",
          "    - Dense: {units: 1024}\n    - Dense: {units: 40000}\n"
          "    - Dense: {units: 1, activation: sigmoid}");
  replace("optimizer: {RMSprop: {learning_rate: 0.01}}",
          "optimizer: {SGD: {learning_rate: 1.0e-6}}");
  replace("  partitioner: {FixedShards: {num_shards: 2}}",
          "  pull_ahead: 0\n  closures_in_flight: 1");
  constexpr int kWorkers = 8;
  Scenario s(
      Scenario::Body::kProcesses, "slow_link",
      MiniClusterOptions{.servers = 1, .workers = kWorkers, .job_yaml = job, .proxied = true});
  FaultProxy* const link = s->proxy(TaskRole::kPs, 0);
  for (const Way way : {Way::kToServer, Way::kToClient}) {
    link->Inject({.kind = Fault::Kind::kRate, .way = way, .bytes_per_second = 50'000'000});
  }
  const auto begin = std::chrono::steady_clock::now();
  s.Check(s->StartAll());
  s.Said(TaskRole::kWorker, 0, {"slow_request"}, seconds(240));
  const ApplyReport report = s.Finish(seconds(600));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto up = link->counters(Traffic::kData, Way::kToServer);
  const auto down = link->counters(Traffic::kData, Way::kToClient);
  std::cout << fmt::format("{:.0f} s; {:.2f} GB up, {:.2f} GB down, {} connections\n", took,
                           static_cast<double>(up.bytes) / 1e9,
                           static_cast<double>(down.bytes) / 1e9, up.connections);
  CHECK(up.connections == kWorkers);
  CHECK(report.applied == 2u * 10);
  CHECK(report.duplicates_refused == 0);
  CHECK(report.recomputed_closures == 0);
  CHECK(report.timelines == 1);
}

}  // namespace
}  // namespace cohort
