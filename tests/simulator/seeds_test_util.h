#ifndef COHORT_TESTS_SIMULATOR_SEEDS_TEST_UTIL_H_
#define COHORT_TESTS_SIMULATOR_SEEDS_TEST_UTIL_H_

#include <catch2/catch.hpp>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>

#include "tests/simulator/seeds.h"

namespace cohort::simulator {

inline uint64_t SeedsFromEnvironment(const char* name, uint64_t otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted == nullptr ? otherwise : std::strtoull(wanted, nullptr, 10);
}

// Runs as many seeds as `variable` of the environment says, or `usual` ones. A seed that fails,
// fails the test; `program` prints its trace. Returns what has happened if none fails and no rare
// fault should be missing: a sanitizer's few seeds are too few for them.
template <typename Bug>
auto CheckSeeds(const char* variable, uint64_t usual, const char* program) {
  constexpr uint64_t kMostTold = 5;
  const uint64_t seeds = SeedsFromEnvironment(variable, usual);
  const uint64_t first = SeedsFromEnvironment("COHORT_SIMULATOR_FIRST", 1);
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  bool failed = false;
  auto all =
      RunSeeds(first, first + seeds - 1, Bug{}, kMostTold, [&](uint64_t seed, const auto& outcome) {
        failed = true;
        FAIL_CHECK(FailureText(outcome)
                   << "  again, with its trace: " << program << " --seed " << seed);
      });
  std::cout << all.Text();
  if (!failed) CHECK(all.runs == seeds);
  return failed || seeds < usual ? std::nullopt : std::optional(all);
}

// A seed means the same run every time.
template <typename Bug>
void CheckRepeats(std::initializer_list<uint64_t> seeds) {
  for (const uint64_t seed : seeds) {
    std::string traces[2];
    for (std::string& trace : traces) {
      (void)RunSeed(
          seed, [&](const std::string& line) { trace += line + "\n"; }, Bug{});
    }
    CHECK(traces[0].size() > 1000);
    CHECK(traces[0] == traces[1]);
  }
}

// One of the first `most` seeds finds the bug: it fails, and does not without the bug.
template <typename Bug>
void CheckFinds(const char* name, Bug bug, uint64_t most, uint64_t first = 1) {
  for (uint64_t from = first; from <= most;) {
    uint64_t failed = 0;
    std::string how;
    RunSeeds(from, most, bug, /*most_failures=*/1, [&](uint64_t seed, const auto& outcome) {
      failed = seed;
      how = outcome.violations[0];
    });
    if (failed == 0) break;
    if (RunSeed(failed, nullptr, Bug{}).violations.empty()) {
      std::cout << name << ": found by seed " << failed << ": " << how << "\n";
      return;
    }
    from = failed + 1;
  }
  FAIL_CHECK(name << " was not found");
}

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SEEDS_TEST_UTIL_H_
