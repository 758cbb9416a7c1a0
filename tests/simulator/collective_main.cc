// cohort-simulate-collective: runs seeds of the simulator of collective groups.
//
//   cohort-simulate-collective --seed 17            one seed with its trace, on stdout
//   cohort-simulate-collective --from 1 --to 10000  many, without
//   ... --bug 1                                     with a planted bug (CollectiveBug)
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/simulator/collective_simulation.h"

namespace {

constexpr char kUsage[] =
    "usage: cohort-simulate-collective [--bug N] --seed N | --from N --to N\n"
    "  --seed N           runs one seed and prints its trace\n"
    "  --from N --to N    runs all of them and prints those that fail\n"
    "  --bug N            plants a bug in every rank: 1 to 4\n";

// Prints the violations. Returns true if there are any.
bool Failed(uint64_t seed, const cohort::simulator::CollectiveOutcome& outcome) {
  if (outcome.violations.empty()) return false;
  std::cout << fmt::format("seed {} fails: {}\n", seed, outcome.plan);
  for (const std::string& violation : outcome.violations) std::cout << "  " << violation << "\n";
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using cohort::simulator::CollectiveBug;
  uint64_t seed = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  auto bug = CollectiveBug::kNone;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") seed = value;
    if (name == "--from") from = value;
    if (name == "--to") to = value;
    if (name == "--bug") bug = static_cast<CollectiveBug>(value);
  }
  if (seed != 0) {
    const auto outcome = cohort::simulator::RunCollectiveSeed(
        seed, [](const std::string& line) { std::cout << line << "\n"; }, bug);
    std::cout << outcome.statistics.Text();
    return Failed(seed, outcome) ? 1 : 0;
  }
  if (from == 0 || to < from) {
    std::cerr << kUsage;
    return 64;
  }
  cohort::simulator::CollectiveStatistics all;
  bool failed = false;
  for (uint64_t s = from; s <= to; ++s) {
    const auto outcome = cohort::simulator::RunCollectiveSeed(s, nullptr, bug);
    failed = Failed(s, outcome) || failed;
    all.Add(outcome.statistics);
  }
  std::cout << all.Text();
  return failed ? 1 : 0;
}
