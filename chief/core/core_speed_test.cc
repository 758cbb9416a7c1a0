// What a closure costs the core: a mirror, and a guard against quadratic surprises.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "chief/core/core_test_world.h"
#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("messages are amortized over closures") {
  TestWorld world(3, 2);
  world.options.closures_in_flight = 16;
  world.StartServing();
  constexpr uint64_t kClosures = 20'000;
  const auto began = std::chrono::steady_clock::now();
  uint64_t place = 0;
  while (place < kClosures || !world.core().idle()) {
    for (int i = 0; i < 512 && place < kClosures; ++i, ++place) {
      REQUIRE(world.ScheduleJob(place, 1, kClosures).ok());
    }
    world.Advance(10'000);
    world.Quiesce();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  std::printf("%.2f us per closure, peers included; %.1f closures per dispatch message\n",
              seconds / kClosures * 1e6,
              static_cast<double>(kClosures) /
                  static_cast<double>(world.core().counters().dispatch_messages));
  CHECK(world.core().counters().dispatch_messages * 4 < kClosures);
  CHECK(world.core().settlement().steps() == kClosures);
}

}  // namespace
}  // namespace cohort
