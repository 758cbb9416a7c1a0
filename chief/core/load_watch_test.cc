#include "chief/core/load_watch.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

// Servers that report once a second, and tablets that move at once.
struct Loaded {
  // By tablet: its server, and the bytes of it that workers move in a second.
  Loaded(std::map<uint32_t, int> places, std::vector<double> rates)
      : places(std::move(places)), rates(std::move(rates)) {}

  void Pass(int seconds) {
    for (int second = 0; second < seconds; ++second) {
      now_us += LoadWatch::kLookUs;
      for (const auto& [tablet, server] : places) {
        if (!reports(server)) continue;
        uint64_t& bytes = moved[{tablet, server}];
        bytes += static_cast<uint64_t>(rates[tablet] * (1 + noise * (now_us % 3'000'000 == 0)));
        watch.OnMoved(server, tablet, bytes, now_us);
      }
      const auto move = watch.Tick(places, servers, now_us);
      if (!move.has_value()) continue;
      CHECK(servers.contains(move->server));
      places[move->tablet] = move->server;
      moves.push_back(*move);
    }
  }

  LoadWatch watch;
  std::map<uint32_t, int> places;
  std::vector<double> rates;
  std::set<int> servers = {0, 1};
  double noise = 0;
  std::function<bool(int)> reports = [](int) { return true; };
  int64_t now_us = 0;
  std::map<std::pair<uint32_t, int>, uint64_t> moved;
  std::vector<LoadWatch::Move> moves;
};

constexpr double kMega = 1'000'000;

TEST_CASE("a tablet of the busiest server moves to the idlest one, after some looks") {
  Loaded l({{0, 0}, {1, 0}, {2, 1}, {3, 1}}, {6 * kMega, 2 * kMega, kMega, kMega});
  // The first report only says where a count begins.
  l.Pass(LoadWatch::kRounds);
  CHECK(l.moves.empty());
  l.Pass(1);
  REQUIRE(l.moves.size() == 1);
  // 6 and 4 are left. The other tablet would leave 2 and 8.
  CHECK(l.moves[0].tablet == 1);
  CHECK(l.moves[0].server == 1);
  CHECK_THAT(l.moves[0].why, Contains("tablet 1 from ps:0 to ps:1") && Contains("ps:0 had 80 %"));
  l.Pass(100);
  CHECK(l.moves.size() == 1);
}

TEST_CASE("a server that joins gets tablets until no move is worth its cost") {
  Loaded l({{0, 0}, {1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 1}}, std::vector<double>(6, kMega));
  l.Pass(50);
  CHECK(l.moves.empty());
  l.servers.insert(2);
  l.Pass(100);
  REQUIRE(l.moves.size() == 2);
  std::map<int, int> tablets;
  for (const auto& [tablet, server] : l.places) ++tablets[server];
  CHECK(tablets == std::map<int, int>{{0, 2}, {1, 2}, {2, 2}});
}

TEST_CASE("tablets stay where they are, if moves gain nothing") {
  SECTION("one tablet is hotter than all others") {
    Loaded l({{0, 0}, {1, 1}}, {9 * kMega, kMega});
    l.Pass(100);
    CHECK(l.moves.empty());
  }
  SECTION("servers are equal, except for what changes from second to second") {
    Loaded l({{0, 0}, {1, 0}, {2, 1}, {3, 1}}, std::vector<double>(4, kMega));
    l.noise = 3;
    l.Pass(300);
    CHECK(l.moves.empty());
  }
  SECTION("nobody is busy") {
    Loaded l({{0, 0}, {1, 0}}, {4000, 4000});
    l.Pass(100);
    CHECK(l.moves.empty());
  }
  SECTION("there is one server") {
    Loaded l({{0, 0}, {1, 0}}, {kMega, kMega});
    l.servers = {0};
    l.Pass(100);
    CHECK(l.moves.empty());
  }
}

TEST_CASE("a server that reports nothing is not taken for an idle one") {
  Loaded l({{0, 0}, {1, 0}, {2, 1}, {3, 1}}, std::vector<double>(4, kMega));
  l.reports = [](int server) { return server == 0; };
  l.Pass(100);
  CHECK(l.moves.empty());
  l.reports = [](int) { return true; };
  l.Pass(100);
  CHECK(l.moves.empty());
}

TEST_CASE("the count of another server is no load") {
  Loaded l({{0, 0}, {1, 1}, {2, 1}}, {kMega, kMega / 2, kMega / 2});
  l.Pass(20);
  // The tablet has been at ps:1 before, as a copy, with a high count.
  l.moved[{0, 1}] = 1000 * 1000 * kMega;
  l.places[0] = 1;
  l.Pass(1);
  CHECK(l.moves.empty());
  l.Pass(20);
  REQUIRE(l.moves.size() == 1);  // 2 and 0 megabytes; half of it moves away
  CHECK(l.moves[0].server == 0);
}

TEST_CASE("a move to a server that is away does not keep other tablets from moving") {
  CoreParts parts(/*workers=*/1, /*ps=*/3);
  for (const int ps : {0, 1, 2}) parts.Adopt(PsTask(ps));
  parts.homes.Assign(CoreParts::OneTabletEach(2), 1);
  CHECK(parts.homes.settled());
  CHECK(absl::IsInvalidArgument(parts.homes.Move(7, 2)));
  REQUIRE(parts.homes.Move(0, 2).ok());
  parts.homes.OnJournaled(parts.outbox.next_record() - 1);
  CHECK(parts.homes.moving() == 1);
  CHECK(parts.homes.places() == std::map<uint32_t, int>{{0, 2}, {1, 1}});
  CHECK_FALSE(parts.homes.settled());
  parts.membership.OnDisconnected(PsTask(2), "it is gone", 0);
  CHECK(parts.homes.places() == std::map<uint32_t, int>{{0, 0}, {1, 1}});
  CHECK(parts.homes.open_servers() == std::set<int>{0, 1});
  CHECK(parts.homes.moving() == 1);
}

}  // namespace
}  // namespace cohort
