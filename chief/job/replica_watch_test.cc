// The watch of replicas over loopback.
#include "chief/job/replica_watch.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>

#include "common/base/status.h"
#include "common/cluster/adoption.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/chief_streams.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Numbers = std::set<int>;
using Answers = ReplicaWatch::Answers;

// The worker's part of a replica, as far as a probe sees it.
class FakeReplica {
 public:
  explicit FakeReplica(uint64_t incarnation, int port = 0) : incarnation_(incarnation) {
    StreamServer::Options options;
    options.listen = {"127.0.0.1:" + std::to_string(port)};
    auto server = StreamServer::Start(
        options,
        {{"/cohort.v1.Worker/Control",
          chiefs_.Serve(
              &clock_,
              {.on_message = [this](uint64_t chief, v1::ChiefToWorker* m) { OnMessage(chief, *m); },
               .on_closed = [](uint64_t, ChiefLoss) {}})}});
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  int port() const { return server_->port(); }
  void Kill() { server_->Shutdown(Unavailable("killed"), std::chrono::milliseconds(0)); }

  std::atomic<bool> hears_other{false};
  std::atomic<bool> answers{true};
  std::atomic<bool> leaving{false};
  std::atomic<int> adoptions{0};

 private:
  void OnMessage(uint64_t chief, const v1::ChiefToWorker& message) {
    if (!message.adopt().probe()) ++adoptions;
    if (!answers) return;
    v1::WorkerToChief answer;
    answer.set_request(message.request());
    answer.mutable_hello()->set_incarnation(incarnation_);
    answer.mutable_hello()->set_hears_chief(hears_other);
    answer.mutable_hello()->set_leaving(leaving);
    chiefs_.Send(chief, answer);
  }

  const uint64_t incarnation_;
  RealClock clock_;
  ChiefStreams<v1::ChiefToWorker, v1::WorkerToChief> chiefs_;
  std::unique_ptr<StreamServer> server_;
};

struct WatchedReplicas {
  WatchedReplicas() {
    ClusterSpec replicas;
    replicas.Set({Role::kWorker, 0}, {"127.0.0.1", chiefs.port()});
    replicas.Set({Role::kWorker, 1}, {"127.0.0.1", first.port()});
    replicas.Set({Role::kWorker, 2}, {"127.0.0.1", second.port()});
    auto started = ReplicaWatch::Start(
        replicas, {.job = "job", .chief_incarnation = 7, .security = Security::LoopbackOnly()});
    REQUIRE(started.ok());
    watch = *std::move(started);
  }
  void Await(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + testing::Scaled(seconds(20));
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    REQUIRE(condition());
  }
  void Await(const Answers& expected) {
    Await([&] { return watch->answers() == expected; });
  }

  FakeReplica chiefs{10};  // the chief's task runs it
  FakeReplica first{11};
  FakeReplica second{12};
  std::unique_ptr<ReplicaWatch> watch;
};

TEST_CASE("the watch names the processes of the replicas that are there and free") {
  WatchedReplicas r;
  r.Await({{1, 11}, {2, 12}});
  r.second.hears_other = true;
  r.Await({{1, 11}});
  r.second.hears_other = false;
  r.Await({{1, 11}, {2, 12}});
  r.second.answers = false;  // it is stopped
  r.Await({{1, 11}});

  const int port = r.first.port();
  r.first.Kill();
  r.Await(Answers());
  const FakeReplica again(21, port);
  r.Await({{1, 21}});
  CHECK(r.chiefs.adoptions + r.first.adoptions + r.second.adoptions + again.adoptions == 0);
}

TEST_CASE("the watch names the replicas that will end, which are not free") {
  WatchedReplicas r;
  r.Await({{1, 11}, {2, 12}});
  CHECK(r.watch->leaving().empty());
  r.second.leaving = true;
  r.Await([&] { return r.watch->leaving() == Numbers{2}; });
  CHECK(r.watch->answers() == Answers{{1, 11}});
  CHECK(r.watch->RollCall({1, 2}, testing::Scaled(seconds(60))) == Answers{{1, 11}});
  r.second.Kill();
  r.Await([&] { return r.watch->leaving().empty(); });
}

TEST_CASE("a roll call returns when all have answered or cannot be reached") {
  WatchedReplicas r;
  const auto began = std::chrono::steady_clock::now();
  CHECK(r.watch->RollCall({0, 1, 2}, testing::Scaled(seconds(60))) ==
        Answers{{0, 10}, {1, 11}, {2, 12}});
  r.first.Kill();
  CHECK(r.watch->RollCall({1, 2}, testing::Scaled(seconds(60))) == Answers{{2, 12}});
  CHECK(std::chrono::steady_clock::now() - began < testing::Scaled(seconds(30)));
  CHECK(r.watch->RollCall({2}, testing::Scaled(seconds(60))) == Answers{{2, 12}});

  r.second.answers = false;
  CHECK(r.watch->RollCall({2}, std::chrono::milliseconds(50)).empty());
}

}  // namespace
}  // namespace cohort
