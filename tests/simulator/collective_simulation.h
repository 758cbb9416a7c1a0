#ifndef COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_
#define COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_

#include "tests/simulator/collective_ledger.h"
#include "tests/simulator/collective_plan.h"
#include "tests/simulator/seeds.h"

namespace cohort::simulator {

using CollectiveOutcome = SeedOutcome<CollectiveStatistics>;

// Runs ranks that exchange buckets over one group after another, with the faults that `seed` stands
// for, until all ranks have all results of a last step. Checks the invariants
// (docs/design/tests.md). `bug`: a planted bug that the run should find.
CollectiveOutcome RunSeed(uint64_t seed, const TraceLine& trace, CollectiveBug bug);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_COLLECTIVE_SIMULATION_H_
