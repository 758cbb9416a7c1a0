#include "chief/core/link_watch.h"

#include <catch2/catch.hpp>
#include <functional>

namespace cohort {
namespace {

using Catch::Contains;

// Workers and servers that report once a second. `wait` is the p50 of a link in seconds.
struct Watched {
  Watched(int workers, int servers) : workers(workers), servers(servers) {
    for (int i = 0; i < workers; ++i) watch.OnAdopted({Role::kWorker, i}, HostOf("w", i));
    for (int i = 0; i < servers; ++i) watch.OnAdopted({Role::kPs, i}, HostOf("s", i));
  }
  static std::string HostOf(const char* prefix, int i) { return prefix + std::to_string(i); }

  void Pass(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      now_us += 1'000'000;
      for (int w = 0; w < workers && reports; ++w) {
        std::vector<LinkFigure> figures;
        for (int s = 0; s < servers; ++s) {
          figures.push_back({.worker = w,
                             .server = s,
                             .requests = requests,
                             .p50_seconds = wait(w, s),
                             .p99_seconds = tail ? tail(w, s) : 2 * wait(w, s)});
        }
        watch.OnWaits(w, figures, now_us);
      }
      for (int s = 0; s < servers; ++s) {
        moved[static_cast<size_t>(s)] += bytes(s);
        watch.OnBytes(s, moved[static_cast<size_t>(s)]);
      }
      for (const LinkWatch::Event& event : watch.Tick(now_us, turns)) {
        events.push_back(std::string(event.name) + " " + event.what);
      }
    }
  }

  const int workers;
  const int servers;
  LinkWatch watch;
  std::function<double(int, int)> wait = [](int, int) { return 0.0004; };
  std::function<double(int, int)> tail;
  std::function<uint64_t(int)> bytes = [](int) { return 1'000'000; };
  uint64_t requests = 900;
  bool reports = true;
  bool turns = false;
  int64_t now_us = 0;
  std::vector<uint64_t> moved = std::vector<uint64_t>(16);
  std::vector<std::string> events;
};

TEST_CASE("a server that lets most workers wait is named once, and once when that ends") {
  Watched w(3, 3);
  w.wait = [](int, int s) { return s == 1 ? 0.020 : 0.0004; };
  w.Pass(LinkWatch::kRounds - 1);
  CHECK(w.events.empty());
  w.Pass(20);
  REQUIRE(w.events.size() == 1);
  CHECK(w.events[0] ==
        "slow_server ps:1: p50 20.0 ms, p99 40.0 ms, against p50 0.4 ms, p99 0.8 ms of other "
        "servers; 3 of 3 workers");
  CHECK(w.watch.slow_servers() == 1);
  CHECK(w.watch.slow_links() == 0);
  CHECK(w.watch.slow().size() == 1);
  for (const LinkFigure& link : w.watch.figures()) CHECK(link.slow == (link.server == 1));
  SECTION("what lies between the limits changes nothing") {
    w.wait = [](int, int s) { return s == 1 ? 0.0018 : 0.0004; };
    w.Pass(20);
    CHECK(w.events.size() == 1);
  }
  w.wait = [](int, int) { return 0.0004; };
  w.Pass(LinkWatch::kRounds - 1);
  CHECK(w.events.size() == 1);
  w.Pass(10);
  REQUIRE(w.events.size() == 2);
  CHECK_THAT(w.events[1], Contains("slow_server_ended ps:1: p50 0.4 ms"));
  CHECK(w.watch.slow_servers() == 0);
  CHECK(w.watch.slow().empty());
}

TEST_CASE("a link that is slow for one of several workers is named, and not its server") {
  Watched w(3, 2);
  w.wait = [](int worker, int s) { return worker == 2 && s == 0 ? 0.015 : 0.001; };
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK(w.events[0] ==
        "slow_link worker:2 -> ps:0: p50 15.0 ms, p99 30.0 ms, against p50 1.0 ms, p99 2.0 ms of "
        "the worker's other servers; other workers wait for ps:0 p50 1.0 ms, p99 2.0 ms");
  CHECK(w.watch.slow_links() == 1);
  w.wait = [](int, int) { return 0.001; };
  w.Pass(10);
  REQUIRE(w.events.size() == 2);
  CHECK_THAT(w.events[1], Contains("slow_link_ended worker:2 -> ps:0"));
}

TEST_CASE("half of the workers are not most of them: each of their links is named") {
  Watched w(4, 2);
  w.wait = [](int worker, int s) { return worker < 2 && s == 1 ? 0.030 : 0.001; };
  w.Pass(10);
  CHECK(w.watch.slow_servers() == 0);
  // The two that are slow are each other's neighbors, and the other two decide.
  CHECK(w.watch.slow_links() == 2);
}

TEST_CASE("with one worker it is its link") {
  Watched w(1, 2);
  w.wait = [](int, int s) { return s == 1 ? 0.020 : 0.001; };
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("slow_link worker:0 -> ps:1: p50 20.0 ms") &&
                              Contains("no other worker has such a link to it"));
}

TEST_CASE("a worker that waits on all of its links is the problem, unless it may wait its turn") {
  const int servers = GENERATE(1, 3);
  Watched w(3, servers);
  w.wait = [](int worker, int) { return worker == 1 ? 0.025 : 0.001; };
  w.turns = true;  // mode sync
  w.Pass(10);
  CHECK(w.events.empty());
  w.turns = false;
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("slow_worker worker:1: p50 25.0 ms") &&
                              Contains("other workers, for each of its servers"));
  CHECK(w.watch.slow_workers() == 1);
}

TEST_CASE("what is short, or small, or common to all names nobody") {
  Watched w(3, 3);
  SECTION("all servers are slow: there is nothing to compare with") {
    w.wait = [](int, int) { return 0.5; };
    w.Pass(20);
  }
  SECTION("much longer, but below the floor") {
    w.wait = [](int, int s) { return s == 1 ? 0.0019 : 0.00005; };
    w.Pass(20);
  }
  SECTION("much more than the floor, but not many times longer") {
    w.wait = [](int, int s) { return s == 1 ? 0.050 : 0.020; };
    w.Pass(20);
  }
  SECTION("again and again, but never for long") {
    for (int i = 0; i < 10; ++i) {
      w.wait = [](int, int s) { return s == 1 ? 0.020 : 0.001; };
      w.Pass(LinkWatch::kRounds - 1);
      w.wait = [](int, int) { return 0.001; };
      w.Pass(1);
    }
  }
  SECTION("one report of long ago, which no other one follows") {
    w.wait = [](int, int s) { return s == 1 ? 0.020 : 0.001; };
    w.Pass(2);
    w.reports = false;
    w.Pass(25);
  }
  CHECK(w.events.empty());
}

TEST_CASE("a server that moves more bytes may take longer in proportion") {
  Watched w(3, 3);
  w.wait = [](int, int s) { return s == 2 ? 0.040 : 0.002; };
  w.bytes = [](int s) { return s == 2 ? 10'000'000 : 1'000'000; };
  w.Pass(20);
  CHECK(w.events.empty());
  w.wait = [](int, int s) { return s == 2 ? 0.090 : 0.002; };
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("slow_server ps:2"));
}

TEST_CASE("a link that loses packets has a usual p50 and a long p99") {
  Watched w(2, 2);
  w.tail = [](int worker, int s) { return worker == 0 && s == 1 ? 0.200 : 0.004; };
  // p99 of few requests says nothing.
  w.requests = LinkWatch::kTailRequests - 1;
  w.Pass(20);
  CHECK(w.events.empty());
  w.requests = LinkWatch::kTailRequests;
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("slow_link worker:0 -> ps:1: p50 0.4 ms, p99 200.0 ms"));
}

TEST_CASE("the log shows p99 also if few requests were made") {
  Watched w(2, 2);
  w.wait = [](int worker, int s) { return worker == 0 && s == 1 ? 0.1 : 0.001; };
  w.requests = 5;
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("p50 100.0 ms, p99 200.0 ms, against p50 1.0 ms, p99 2.0 ms"));
}

TEST_CASE("links within a host are compared with each other only") {
  Watched w(2, 4);
  // Two hosts with a worker and two servers each, and a network between them.
  for (int i = 0; i < 2; ++i) w.watch.OnAdopted({Role::kWorker, i}, Watched::HostOf("h", i));
  for (int i = 0; i < 4; ++i) w.watch.OnAdopted({Role::kPs, i}, Watched::HostOf("h", i / 2));
  w.wait = [](int worker, int s) { return worker == s / 2 ? 0.001 : 0.030; };
  w.Pass(20);
  CHECK(w.events.empty());
  w.wait = [](int worker, int s) { return s == 3 ? 0.200 : worker == s / 2 ? 0.001 : 0.030; };
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  CHECK_THAT(w.events[0], Contains("slow_server ps:3") && Contains("2 of 2 workers"));
}

TEST_CASE("a server that nobody asks any more is slow no more") {
  Watched w(3, 2);
  w.wait = [](int, int s) { return s == 1 ? 0.020 : 0.001; };
  w.Pass(10);
  REQUIRE(w.events.size() == 1);
  SECTION("it is lost") { w.watch.OnLost({Role::kPs, 1}); }
  SECTION("the job is paused") { w.Pass(LinkWatch::kForgetUs / 1'000'000 - 10); }
  w.reports = false;
  w.Pass(LinkWatch::kForgetUs / 1'000'000 + 10);
  REQUIRE(w.events.size() == 2);
  CHECK(w.events[1] == "slow_server_ended ps:1: no requests");
  CHECK(w.watch.figures().empty());
}

TEST_CASE("what a lost worker has reported is forgotten") {
  Watched w(2, 2);
  w.Pass(1);
  CHECK(w.watch.figures().size() == 4);
  w.watch.OnLost({Role::kWorker, 0});
  REQUIRE(w.watch.figures().size() == 2);
  CHECK(w.watch.figures()[0].worker == 1);
}

}  // namespace
}  // namespace cohort
