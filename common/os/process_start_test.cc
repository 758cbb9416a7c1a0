#include "common/os/process_start.h"

#include <catch2/catch.hpp>
#include <string>

namespace cohort {
namespace {

TEST_CASE("the start of a process lies in the past and does not change") {
  const TimePoint start = ProcessStart();
  const TimePoint now = std::chrono::steady_clock::now();
  CHECK(start <= now);
  CHECK(now - start < std::chrono::hours(24));
  // Two clocks are read one after another.
  CHECK(ToSeconds(ProcessStart() - start) == Approx(0).margin(0.5));
}

TEST_CASE("the launcher's time takes precedence over the process's own start") {
  CHECK(LaunchTime("123456789") == TimePoint(std::chrono::nanoseconds(123456789)));
  for (const char* none : {static_cast<const char*>(nullptr), "", "soon", "12s"}) {
    CHECK(LaunchTime(none) > TimePoint(std::chrono::nanoseconds(123456789)));
  }
}

}  // namespace
}  // namespace cohort
