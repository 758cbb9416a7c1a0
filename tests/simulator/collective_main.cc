// cohort-simulate-collective: runs seeds of the simulator of collective groups (RunSeedProgram).
#include "tests/simulator/collective_simulation.h"

int main(int argc, char** argv) {
  return cohort::simulator::RunSeedProgram<cohort::simulator::CollectiveBug>(argc, argv);
}
