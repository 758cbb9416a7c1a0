#include "chief/core/staleness_window.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("a window covers the step of the oldest place, and `staleness` more") {
  StalenessWindow window{ProtocolFaults()};
  const ModeSettings mode{
      .mode = ConsistencyMode::kBounded, .closures_per_step = 2, .staleness = 1};
  CHECK(window.Admits(9, mode));  // nothing runs
  window.Enter(2);
  window.Enter(3);
  CHECK(window.Admits(5, mode));
  CHECK(!window.Admits(6, mode));
  window.Leave(3);
  CHECK(!window.Admits(6, mode));
  window.Leave(2);
  window.Enter(5);
  CHECK(window.Admits(7, mode));
  CHECK(!window.Admits(8, mode));
  window.Clear();
  CHECK(window.Admits(8, mode));
}

}  // namespace
}  // namespace cohort
