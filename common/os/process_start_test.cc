#include "common/os/process_start.h"

#include <catch2/catch.hpp>
#include <string>

namespace cohort {
namespace {

TEST_CASE("a process was started a while ago, and always at the same time") {
  const TimePoint start = ProcessStart();
  const TimePoint now = std::chrono::steady_clock::now();
  CHECK(start <= now);
  CHECK(now - start < std::chrono::hours(24));
  // Two clocks are read one after another.
  CHECK(ToSeconds(ProcessStart() - start) == Approx(0).margin(0.5));
}

TEST_CASE("a launcher's word goes before the process's own start") {
  CHECK(LaunchTime("123456789") == TimePoint(std::chrono::nanoseconds(123456789)));
  for (const char* none : {static_cast<const char*>(nullptr), "", "soon", "12s"}) {
    CHECK(LaunchTime(none) > TimePoint(std::chrono::nanoseconds(123456789)));
  }
}

}  // namespace
}  // namespace cohort
