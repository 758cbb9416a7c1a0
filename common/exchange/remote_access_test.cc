#include "common/exchange/remote_access.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/exchange/exchange_test_world.h"
#include "common/exchange/remote_access_test_server.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/time_test_util.h"

namespace cohort::exchange_test {
namespace {

struct Cluster {
  explicit Cluster(const std::string& unix_path = "",
                   uint64_t chunk_bytes = ExchangeOptions().chunk_bytes) {
    for (int ps = 0; ps < 2; ++ps) {
      real[ps].Start(ps == 0 ? unix_path : "");
      v1::PsRoute* route = world.routes.mutable_servers(ps);
      route->set_address(fmt::format("127.0.0.1:{}", real[ps].port()));
      route->set_host_id("here");
      if (ps == 0) route->set_unix_socket(unix_path);
    }
    RemoteAccessOptions options;
    options.host_id = "here";
    options.exchange.chunk_bytes = chunk_bytes;
    options.exchange.unreachable_after_us = 300'000;
    options.exchange.request_timeout_us = 2'000'000;
    remote = std::make_unique<RemoteAccess>(options);
    remote->thread()->SetGeneration(1);
    SetRoutes();
    access = remote->ForProgram(world.decls);
  }
  ~Cluster() {
    access.reset();
    remote.reset();  // before the servers: it closes first
  }
  void SetRoutes() { remote->thread()->SetRoutes(std::make_shared<v1::Routes>(world.routes)); }

  World world;
  Mutex mu;
  RealServer real[2] = {{&world.servers[0], &mu}, {&world.servers[1], &mu}};
  std::unique_ptr<RemoteAccess> remote;
  std::unique_ptr<VariableAccess> access;
};

TEST_CASE("steps over real sockets read what they wrote") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("cohort-{}.sock", getpid())).string();
  Cluster cluster(path);
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PullBatch pull = step.Pull();
  for (uint64_t closure = 1; closure <= 50; ++closure) {
    const PushBatch push = step.Push(closure);
    const auto result = cluster.access->Exchange(&push, &pull);
    REQUIRE(result.ok());
    REQUIRE(result->push.applied == 3);
    REQUIRE(step.dense[20] == static_cast<float>(closure));
  }
  CHECK(cluster.remote->counters().requests == 100);
  CHECK(cluster.remote->counters().resends == 0);
  CHECK(cluster.remote->counters().connections == 2);
  CHECK(cluster.real[0].streams == 1);
}

TEST_CASE("a unix socket that does not lead to the server is given up, and the address used") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("cohort-{}.sock", getpid())).string();
  Cluster cluster(path);
  cluster.real[0].incarnation = cluster.world.routes.servers(0).incarnation();
  // It gets the name.
  Cluster other(path + "-other");
  RealServer& reached = other.real[0];
  SECTION("another server") { reached.incarnation = 7; }
  SECTION("one that says nothing") { reached.silent = true; }
  SECTION("one that ends before it answers") { reached.lose_requests = 1; }
  std::filesystem::rename(path + "-other", path);
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PullBatch pull = step.Pull();
  for (uint64_t closure = 1; closure <= 3; ++closure) {
    const PushBatch push = step.Push(closure);
    const auto result = cluster.access->Exchange(&push, &pull);
    REQUIRE(result.ok());
    CHECK(result->push.applied == 3);
  }
  CHECK(cluster.remote->counters().resends == 1);
  CHECK(cluster.remote->counters().sockets_given_up == 1);
  CHECK(cluster.real[0].streams == 1);
  CHECK(reached.refused + reached.requests == 1);
  MutexLock lock(&other.mu);
  for (const ModelTablet& tablet : other.world.tablets) CHECK(tablet.log.empty());
}

TEST_CASE("a server that took another's address is not taken for it") {
  Cluster cluster;
  cluster.real[1].incarnation = 7;
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PushBatch push = step.Push(1);
  const auto failed = cluster.access->Exchange(&push, nullptr);
  REQUIRE(absl::IsUnavailable(failed.status()));
  CHECK(GetFailure(failed.status())->index == 1);
  CHECK(testing::Contains(failed.status().ToString(), "another incarnation of this one"));
  CHECK(cluster.real[1].streams == 0);
  // The routes say who is there now.
  cluster.world.routes.mutable_servers(1)->set_incarnation(7);
  cluster.SetRoutes();
  CHECK(cluster.access->Exchange(&push, nullptr).ok());
}

// A request of several messages: each waits for the end of the write before, which is an event.
TEST_CASE("polls put the requests on the wire") {
  Cluster cluster("", /*chunk_bytes=*/32);
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PullBatch pull = step.Pull();
  REQUIRE(cluster.access->Exchange(nullptr, &pull).ok());  // connects
  for (int closure = 1; closure <= 50; ++closure) {
    const PushBatch push = step.Push(static_cast<uint64_t>(closure));
    REQUIRE(cluster.access->Begin(&push, &pull).ok());
    const auto limit = std::chrono::steady_clock::now() + testing::Scaled(std::chrono::seconds(20));
    for (RealServer& server : cluster.real) {
      while (server.requests <= closure) {
        REQUIRE(std::chrono::steady_clock::now() < limit);
        cluster.access->Poll();
      }
    }
    REQUIRE(cluster.access->Finish().ok());
    CHECK(step.dense[20] == static_cast<float>(closure));
  }
}

TEST_CASE("an answer that is promised for later is read when it comes") {
  Cluster cluster;
  cluster.world.servers[1].later = true;
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PullBatch pull = step.Pull();
  for (uint64_t closure = 1; closure <= 5; ++closure) {
    const PushBatch push = step.Push(closure);
    REQUIRE(cluster.access->Exchange(&push, &pull).ok());
    CHECK(step.dense == std::vector<float>(21, static_cast<float>(closure)));
  }
  CHECK(cluster.remote->counters().resends == 0);
}

TEST_CASE("lost requests and lost answers are sent again and applied once") {
  Cluster cluster;
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PullBatch pull = step.Pull();
  for (uint64_t closure = 1; closure <= 6; ++closure) {
    RealServer& server = cluster.real[closure % 2];
    (closure < 4 ? server.lose_requests : server.lose_responses) = 1;
    const PushBatch push = step.Push(closure);
    const auto result = cluster.access->Exchange(&push, &pull);
    REQUIRE(result.ok());
    CHECK(result->push.applied + result->push.duplicates == 3);
    CHECK(step.dense == std::vector<float>(21, static_cast<float>(closure)));
  }
  CHECK(cluster.remote->counters().resends == 6);
  MutexLock lock(&cluster.mu);
  CHECK(cluster.world.servers[0].duplicates + cluster.world.servers[1].duplicates >= 3);
  for (const ModelTablet& tablet : cluster.world.tablets) CHECK(tablet.log.size() == 6);
}

TEST_CASE("a server that is gone is named, and found again at its new address") {
  Cluster cluster;
  Step step({3, 40});
  const PullBatch pull = step.Pull();
  REQUIRE(cluster.access->Exchange(nullptr, &pull).ok());
  cluster.real[1].Stop();
  const auto failed = cluster.access->Exchange(nullptr, &pull);
  REQUIRE(absl::IsUnavailable(failed.status()));
  const auto failure = GetFailure(failed.status());
  REQUIRE(failure.has_value());
  CHECK(failure->role == "ps");
  CHECK(failure->index == 1);

  cluster.real[1].Start();
  v1::PsRoute* route = cluster.world.routes.mutable_servers(1);
  route->set_address(fmt::format("127.0.0.1:{}", cluster.real[1].port()));
  route->set_incarnation(200);
  std::thread chief([&] { cluster.SetRoutes(); });
  chief.join();
  CHECK(cluster.access->Exchange(nullptr, &pull).ok());
}

TEST_CASE("an exchange under way hears of interrupts and of new routes") {
  Cluster cluster;
  Step step({3, 40});
  step.dense_gradient.assign(21, 1);
  const PushBatch push = step.Push(1);
  cluster.real[1].silent = true;
  SECTION("interrupt") {
    std::thread control([&] {
      while (cluster.real[1].requests == 0) std::this_thread::yield();
      cluster.remote->thread()->Interrupt();
    });
    const auto result = cluster.access->Exchange(&push, nullptr);
    control.join();
    CHECK(absl::IsCancelled(result.status()));
  }
  SECTION("rolled back") {
    std::thread control([&] {
      while (cluster.real[1].requests == 0) std::this_thread::yield();
      cluster.world.routes.set_timeline(2);
      cluster.SetRoutes();
    });
    const auto result = cluster.access->Exchange(&push, nullptr);
    control.join();
    CHECK(absl::IsAborted(result.status()));
  }
  // What was sent may be sent again, and the memory is free.
  cluster.real[1].silent = false;
  cluster.world.routes.set_timeline(1);
  cluster.SetRoutes();
  const auto again = cluster.access->Exchange(&push, nullptr);
  REQUIRE(again.ok());
  CHECK(again->push.applied + again->push.duplicates == 3);
  MutexLock lock(&cluster.mu);
  CHECK(cluster.world.tablets[2].shards[2][0] == 1);
}

TEST_CASE("an exchange without routes fails with FailedPrecondition") {
  RemoteAccess remote{RemoteAccessOptions{}};
  const auto access = remote.ForProgram({});
  CHECK(absl::IsFailedPrecondition(access->Exchange(nullptr, nullptr).status()));
}

}  // namespace
}  // namespace cohort::exchange_test
