#include "chief/job/return_rule.h"

#include <catch2/catch.hpp>

#include "common/base/clock_test_util.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct AwayReplica {
  ManualClock clock;
  ReturnRule rule{clock.Now()};

  // A process answers until it is ready. Returns how long that took.
  Duration UntilReady(uint64_t process) {
    const TimePoint began = clock.Now();
    rule.OnAnswer(process, clock.Now());
    while (!rule.IsReady(clock.Now()) && clock.Now() - began < minutes(5)) {
      clock.Advance(milliseconds(100));
      rule.OnAnswer(process, clock.Now());
    }
    return clock.Now() - began;
  }
};

TEST_CASE("a replica that is lost again and again waits twice as long each time") {
  AwayReplica replica;
  CHECK(replica.rule.IsFirstLoss(replica.clock.Now()));
  uint64_t process = 0;
  for (const int pause_s : {1, 2, 4, 8, 16, 32, 64, 120, 120}) {
    replica.rule.OnLost(replica.clock.Now());
    CHECK(replica.UntilReady(++process) == seconds(pause_s));
    replica.rule.OnUsed(replica.clock.Now());
    CHECK_FALSE(replica.rule.IsReady(replica.clock.Now()));
    replica.clock.Advance(seconds(5));
    CHECK_FALSE(replica.rule.IsFirstLoss(replica.clock.Now()));
  }
  // The job has used it for long enough.
  replica.clock.Advance(minutes(10));
  CHECK(replica.rule.IsFirstLoss(replica.clock.Now()));
  replica.rule.OnLost(replica.clock.Now());
  CHECK(replica.UntilReady(++process) == seconds(1));
}

TEST_CASE("a replica must answer for the whole pause as one process") {
  AwayReplica replica;
  for (int i = 0; i < 3; ++i) replica.rule.OnLost(replica.clock.Now());  // the pause is 4 s
  const auto after = [&](seconds time, std::optional<uint64_t> process) {
    replica.clock.Advance(time);
    replica.rule.OnAnswer(process, replica.clock.Now());
    return replica.rule.IsReady(replica.clock.Now());
  };
  CHECK_FALSE(after(seconds(9), std::nullopt));
  CHECK_FALSE(after(seconds(0), 1));
  CHECK_FALSE(after(seconds(3), 1));
  CHECK_FALSE(after(seconds(1), 2));  // another process
  CHECK_FALSE(after(seconds(3), std::nullopt));
  CHECK_FALSE(after(seconds(1), 2));  // there was a gap
  CHECK_FALSE(after(seconds(3), 2));
  CHECK(after(seconds(1), 2));
}

TEST_CASE("a process that the job cannot use is not tried again") {
  AwayReplica replica;
  replica.rule.OnLost(replica.clock.Now());
  REQUIRE(replica.UntilReady(7) == seconds(1));
  replica.rule.OnRefused(7);
  replica.rule.OnLost(replica.clock.Now());
  CHECK(replica.UntilReady(7) >= minutes(5));
  CHECK(replica.UntilReady(8) == seconds(2));
}

}  // namespace
}  // namespace cohort
