#ifndef COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_
#define COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/simulator/collective_ledger.h"
#include "tests/simulator/collective_plan.h"

namespace cohort::simulator {

// The outcome of one seed.
struct CollectiveOutcome {
  std::vector<std::string> violations;  // empty: all invariants hold
  CollectiveStatistics statistics;
  std::string plan;
};

// Runs ranks that exchange buckets over one group after another, with the faults that `seed` stands
// for, until all ranks have all results of a last step. Checks the invariants (ARCHITECTURE.md, "The
// simulator"). `trace`, if not null, gets a line for every message and event. `bug`: a planted bug
// that the run should find.
CollectiveOutcome RunCollectiveSeed(uint64_t seed,
                                    std::function<void(const std::string&)> trace = nullptr,
                                    CollectiveBug bug = CollectiveBug::kNone);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_
