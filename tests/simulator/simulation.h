#ifndef COHORT_TESTS_SIMULATOR_SIMULATION_H_
#define COHORT_TESTS_SIMULATOR_SIMULATION_H_

#include "tests/simulator/ledger.h"
#include "tests/simulator/plan.h"
#include "tests/simulator/seeds.h"

namespace cohort::simulator {

using Outcome = SeedOutcome<Statistics>;

// Runs the cluster and the job that `seed` stands for, with their faults, until the job is
// finished. Checks the invariants (docs/design/tests.md). `bug`: a planted bug that the
// run should find.
Outcome RunSeed(uint64_t seed, const TraceLine& trace, PlantedBug bug);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_SIMULATION_H_
