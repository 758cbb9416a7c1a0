#include "chief/core/attended_clock.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

constexpr int64_t kOneSecond = 1'000'000;

TEST_CASE("a clock stands still while its process is stopped") {
  AttendedClock clock(/*pause_us=*/kOneSecond);
  CHECK(clock.Tick(5 * kOneSecond) == 0);
  CHECK(clock.At(5 * kOneSecond) == 5 * kOneSecond);
  CHECK(clock.Tick(6 * kOneSecond) == 0);
  CHECK(clock.At(6 * kOneSecond) == 6 * kOneSecond);
  // Whoever asks before the tick that notices the pause gets the time before it, too.
  CHECK(clock.At(46 * kOneSecond) == 6 * kOneSecond);
  CHECK(clock.Tick(46 * kOneSecond) == 40 * kOneSecond);
  CHECK(clock.At(46 * kOneSecond) == 6 * kOneSecond);
  CHECK(clock.Tick(47 * kOneSecond) == 0);
  CHECK(clock.At(47 * kOneSecond) == 7 * kOneSecond);
  CHECK(clock.Tick(77 * kOneSecond) == 30 * kOneSecond);
  CHECK(clock.At(77 * kOneSecond) == 7 * kOneSecond);
}

TEST_CASE("a clock never goes backwards") {
  AttendedClock clock(/*pause_us=*/kOneSecond);
  clock.Tick(kOneSecond);
  CHECK(clock.At(2 * kOneSecond) == 2 * kOneSecond);
  CHECK(clock.At(3 * kOneSecond) == 2 * kOneSecond);  // the process was stopped since the tick
  clock.Tick(3 * kOneSecond);
  CHECK(clock.At(3 * kOneSecond) == 2 * kOneSecond);
}

}  // namespace
}  // namespace cohort
