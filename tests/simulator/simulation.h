#ifndef COHORT_TESTS_SIMULATOR_SIMULATION_H_
#define COHORT_TESTS_SIMULATOR_SIMULATION_H_

#include <functional>
#include <string>
#include <vector>

#include "tests/simulator/ledger.h"
#include "tests/simulator/plan.h"

namespace cohort::simulator {

// How one seed went.
struct Outcome {
  std::vector<std::string> violations;  // none: all invariants hold
  Statistics statistics;
  std::string plan;
};

// Runs the cluster and the job that `seed` means, faults and all, until the job is finished, and
// checks what must hold (ARCHITECTURE.md, "The simulator"). `trace` gets a line for every message
// and event, where it is given. `bug`: to see that it is found.
Outcome RunSeed(uint64_t seed, std::function<void(const std::string&)> trace = nullptr,
                PlantedBug bug = PlantedBug::kNone);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SIMULATION_H_
