// Runs hundreds of schedules of losses, delays, kills and stops over collective groups, and proves that
// the simulator finds planted bugs.
//
// COHORT_COLLECTIVE_SEEDS: how many seeds. COHORT_SIMULATOR_FIRST: the first of them, as in
// simulator_test.cc. To repeat one with its trace:
//
//   build/dev/tests/cohort-simulate-collective --seed N
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>

#include "tests/simulator/collective_simulation.h"

namespace cohort::simulator {
namespace {

constexpr uint64_t kSeeds = 300;
constexpr size_t kMostTold = 5;

uint64_t SeedsFromEnvironment(const char* name, uint64_t otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted == nullptr ? otherwise : std::strtoull(wanted, nullptr, 10);
}

TEST_CASE("whatever happens, a collective ends with the right sums or names the missing rank") {
  const uint64_t seeds = SeedsFromEnvironment("COHORT_COLLECTIVE_SEEDS", kSeeds);
  const uint64_t first = SeedsFromEnvironment("COHORT_SIMULATOR_FIRST", 1);
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  CollectiveStatistics all;
  size_t failures = 0;
  for (uint64_t seed = first; seed < first + seeds && failures < kMostTold; ++seed) {
    const CollectiveOutcome outcome = RunCollectiveSeed(seed);
    all.Add(outcome.statistics);
    if (outcome.violations.empty()) continue;
    ++failures;
    std::string text = outcome.plan + "\n";
    for (const std::string& violation : outcome.violations) text += "  " + violation + "\n";
    FAIL_CHECK(text << "  again, with its trace: cohort-simulate-collective --seed " << seed);
  }
  std::cout << all.Text();
  CHECK(all.runs == seeds);
  // The test proves something only if each kind of fault has happened. A sanitizer's few seeds are too
  // few for rare ones.
  if (failures > 0 || seeds < kSeeds) return;
  const uint64_t usual = seeds / 2;
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
  for (const uint64_t of_kind : all.by_kind) CHECK(of_kind > 10 * usual);
  CHECK(all.rings > 10 * usual);
  CHECK(all.late > usual / 5);
  CHECK(all.lost > usual);
  CHECK(all.abandoned > usual);
  CHECK(all.early_chunks > 10 * usual);
  CHECK(all.dropped_frames > usual);
  CHECK(all.lent_frames > usual / 4);
}

TEST_CASE("a seed of a collective means the same run every time") {
  for (const uint64_t seed : {4, 102}) {
    std::string first;
    std::string second;
    (void)RunCollectiveSeed(seed, [&](const std::string& line) { first += line + "\n"; });
    (void)RunCollectiveSeed(seed, [&](const std::string& line) { second += line + "\n"; });
    CHECK(first.size() > 1000);
    CHECK(first == second);
  }
}

TEST_CASE("a planted bug of a collective is found") {
  const auto [name, bug, most] = GENERATE(table<const char*, CollectiveBug, uint64_t>(
      {{"streams and frames of any epoch are used", CollectiveBug::kTakesAnyEpoch, 200},
       {"credit that comes early is lost", CollectiveBug::kDropsEarlyCredit, 50},
       {"a rank names its neighbor without asking", CollectiveBug::kNamesItsSender, 200},
       {"Wait returns buffers that the transport reads", CollectiveBug::kReturnsLentBuffers,
        200}}));
  uint64_t found = 0;
  std::string what;
  for (uint64_t seed = 1; seed <= most && found == 0; ++seed) {
    const CollectiveOutcome outcome = RunCollectiveSeed(seed, nullptr, bug);
    if (outcome.violations.empty()) continue;
    found = seed;
    what = outcome.violations[0];
  }
  std::cout << name << ": found by seed " << found << ": " << what << "\n";
  CHECK(found != 0);
}

}  // namespace
}  // namespace cohort::simulator
