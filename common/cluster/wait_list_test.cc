#include "common/cluster/wait_list.h"

#include <catch2/catch.hpp>

#include "common/base/clock_test_util.h"

namespace cohort {
namespace {

using std::chrono::seconds;

WaitList::Options EveryThree(int timeout_s) { return {seconds(timeout_s), seconds(3)}; }

TEST_CASE("a wait names the missing tasks every few seconds") {
  ManualClock clock;
  WaitList wait(&clock, EveryThree(60));
  REQUIRE(wait.done());
  wait.Expect({Role::kWorker, 2}, Address{"host3", 2222});
  wait.Expect({Role::kPs, 0}, std::nullopt);
  REQUIRE_FALSE(wait.Tick().has_value());
  clock.Advance(seconds(3));
  REQUIRE(wait.Tick() == "waiting for ps:0, worker:2 (host3:2222), 3 s");
  REQUIRE_FALSE(wait.Tick().has_value());
  wait.Arrived({Role::kPs, 0});
  wait.Note("worker:2", "connection refused");
  clock.Advance(seconds(9));
  REQUIRE(wait.Tick() == "waiting for worker:2 (host3:2222) [connection refused], 12 s");
  wait.Arrived("worker:2");
  REQUIRE(wait.done());
  clock.Advance(seconds(100));
  REQUIRE_FALSE(wait.Tick().has_value());
  REQUIRE_FALSE(wait.Expired().has_value());
}

TEST_CASE("a wait expires when its oldest task is missing for the timeout") {
  ManualClock clock;
  WaitList wait(&clock, EveryThree(30));
  wait.Expect("worker:0", "a:1");
  clock.Advance(seconds(20));
  wait.Expect("worker:0", "a:1");  // the wait keeps its age
  wait.Expect("ps:1", "b:1");
  clock.Advance(seconds(9));
  REQUIRE_FALSE(wait.Expired().has_value());
  REQUIRE(wait.Tick().has_value());
  clock.Advance(seconds(1));
  REQUIRE(wait.Expired() == seconds(30));
  REQUIRE(wait.Missing() == "ps:1 (b:1), worker:0 (a:1)");
}

TEST_CASE("without a deadline a wait continues") {
  ManualClock clock;
  WaitList wait(&clock, EveryThree(0));
  wait.Expect("worker:0", "");
  clock.Advance(std::chrono::hours(24));
  REQUIRE_FALSE(wait.Expired().has_value());
  REQUIRE(wait.Tick() == "waiting for worker:0, 86400 s");
}

}  // namespace
}  // namespace cohort
