// Runs hundreds of schedules of losses, delays, kills and stops over collective groups, and proves
// that the simulator finds planted bugs.
//
// COHORT_COLLECTIVE_SEEDS: how many seeds. COHORT_SIMULATOR_FIRST: the first of them, as in
// simulator_test.cc. To repeat one with its trace:
//
//   build/dev/tests/cohort-simulate-collective --seed N
#include "tests/simulator/collective_simulation.h"
#include "tests/simulator/seeds_test_util.h"

namespace cohort::simulator {
namespace {

TEST_CASE("whatever happens, a collective ends with the right sums or names the missing rank") {
  const auto counted =
      CheckSeeds<CollectiveBug>("COHORT_COLLECTIVE_SEEDS", 300, "cohort-simulate-collective");
  if (!counted.has_value()) return;
  const CollectiveStatistics& all = *counted;
  // The test proves something only if each kind of fault has happened.
  const uint64_t usual = all.runs / 2;
  CHECK(all.killed > usual / 2);
  CHECK(all.frozen > usual / 2);
  CHECK(all.wedged > usual / 10);
  CHECK(all.network.breaks > usual / 2);
  CHECK(all.network.cuts > usual / 2);
  CHECK(all.epochs > 2 * usual);
  CHECK(all.failed_starts > usual / 5);
  CHECK(all.old_epochs > usual / 20);
  CHECK(all.refused_streams > usual);
  CHECK(all.operations > 50 * usual);
  CHECK(all.late > usual / 5);
  CHECK(all.lost > usual);
  CHECK(all.given_up > usual / 5);
  CHECK(all.early_chunks > 10 * usual);
  CHECK(all.dropped_frames > usual);
  CHECK(all.lent_frames > usual / 4);
}

TEST_CASE("a seed of a collective means the same run every time") {
  CheckRepeats<CollectiveBug>({4, 102});
}

TEST_CASE("a planted bug of a collective is found") {
  const auto [name, bug, most] = GENERATE(table<const char*, CollectiveBug, uint64_t>(
      {{"streams and frames of any epoch are used", CollectiveBug::kTakesAnyEpoch, 200},
       {"credit that comes early is lost", CollectiveBug::kDropsEarlyCredit, 50},
       {"a rank names its neighbor without asking", CollectiveBug::kNamesItsSender, 200},
       {"Wait returns buffers that the transport reads", CollectiveBug::kReturnsLentBuffers,
        200}}));
  CheckFinds(name, bug, most);
}

}  // namespace
}  // namespace cohort::simulator
