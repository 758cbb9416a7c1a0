#ifndef COHORT_TESTS_SIMULATOR_SEEDS_H_
#define COHORT_TESTS_SIMULATOR_SEEDS_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort::simulator {

// What the simulators have in common. Each has an enumeration `Bug` of its planted bugs, where 0 is
// none, and a function that runs what a seed stands for:
//
//   SeedOutcome<Statistics> RunSeed(uint64_t seed, const TraceLine& trace, Bug bug)

// Gets a line for every message and event. May be null.
using TraceLine = std::function<void(const std::string&)>;

// Counts with their names.
using Counts = std::vector<std::pair<const char*, uint64_t*>>;

inline void AddCounts(const Counts& from, const Counts& to) {
  for (size_t i = 0; i < to.size(); ++i) *to[i].second += *from[i].second;
}

// One line for each count.
inline std::string CountsText(const Counts& counts) {
  std::string text;
  for (const auto& [name, value] : counts) text += fmt::format("{:>12} {}\n", *value, name);
  return text;
}

// The outcome of one seed.
template <typename Statistics>
struct SeedOutcome {
  std::vector<std::string> violations;  // empty: all invariants hold
  Statistics statistics;
  std::string plan;
};

// The plan and the violations of a seed that fails.
template <typename Statistics>
std::string FailureText(const SeedOutcome<Statistics>& outcome) {
  std::string text = fmt::format("fails: {}\n", outcome.plan);
  for (const std::string& violation : outcome.violations) text += "  " + violation + "\n";
  return text;
}

// Runs seeds until `most_failures` of them fail. `on_failure` gets their numbers and outcomes.
template <typename Bug, typename OnFailure>
auto RunSeeds(uint64_t from, uint64_t to, Bug bug, uint64_t most_failures,
              const OnFailure& on_failure) {
  decltype(RunSeed(from, nullptr, bug).statistics) all;
  uint64_t failures = 0;
  for (uint64_t seed = from; seed <= to && failures < most_failures; ++seed) {
    const auto outcome = RunSeed(seed, nullptr, bug);
    all.Add(outcome.statistics);
    if (outcome.violations.empty()) continue;
    ++failures;
    on_failure(seed, outcome);
  }
  return all;
}

// The program of a simulator. Returns its exit code: 1 if a seed fails.
//
//   PROGRAM --seed 17            one seed with its trace, on stdout
//   PROGRAM --from 1 --to 10000  many, without
//   ... --bug 1                  with a planted bug (Bug)
template <typename Bug>
int RunSeedProgram(int argc, char** argv) {
  uint64_t seed = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  Bug bug{};
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") seed = value;
    if (name == "--from") from = value;
    if (name == "--to") to = value;
    if (name == "--bug") bug = static_cast<Bug>(value);
  }
  if (seed != 0) {
    auto outcome = RunSeed(
        seed, [](const std::string& line) { std::cout << line << "\n"; }, bug);
    std::cout << outcome.statistics.Text();
    if (!outcome.violations.empty()) std::cout << FailureText(outcome);
    return outcome.violations.empty() ? 0 : 1;
  }
  if (from == 0 || to < from) {
    std::cerr << "usage: " << argv[0] << " [--bug N] --seed N | --from N --to N\n"
              << "  --seed N           runs one seed and prints its trace\n"
                 "  --from N --to N    runs all of them and prints those that fail\n"
                 "  --bug N            plants a bug\n";
    return 64;
  }
  bool failed = false;
  auto all = RunSeeds(from, to, bug, UINT64_MAX, [&](uint64_t, const auto& outcome) {
    failed = true;
    std::cout << FailureText(outcome);
  });
  std::cout << all.Text();
  return failed ? 1 : 0;
}

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SEEDS_H_
