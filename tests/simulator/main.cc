// cohort-simulate: runs seeds of the simulator of a whole cluster (RunSeedProgram).
#include "tests/simulator/simulation.h"

int main(int argc, char** argv) {
  return cohort::simulator::RunSeedProgram<cohort::simulator::PlantedBug>(argc, argv);
}
