#ifndef COHORT_TESTS_SIMULATOR_SIMULATION_H_
#define COHORT_TESTS_SIMULATOR_SIMULATION_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/simulator/ledger.h"
#include "tests/simulator/plan.h"

namespace cohort::simulator {

// The outcome of one seed.
struct Outcome {
  std::vector<std::string> violations;  // empty: all invariants hold
  Statistics statistics;
  std::string plan;
};

// Runs the cluster and the job that `seed` stands for, with their faults, until the job is
// finished. Checks the invariants (ARCHITECTURE.md, "The simulator"). `trace`, if not null, gets a
// line for every message and event. `bug`: a planted bug that the run should find.
Outcome RunSeed(uint64_t seed, std::function<void(const std::string&)> trace = nullptr,
                PlantedBug bug = PlantedBug::kNone);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SIMULATION_H_
