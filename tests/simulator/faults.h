#ifndef COHORT_TESTS_SIMULATOR_FAULTS_H_
#define COHORT_TESTS_SIMULATOR_FAULTS_H_

#include "tests/simulator/cluster.h"

namespace cohort::simulator {

// Causes the faults of a run. The seed decides their kinds and times, at the plan's rates, until
// the plan's time for faults is over. After that, dead processes are started again and no fault
// follows.
class Faults {
 public:
  explicit Faults(Cluster* cluster);
  ~Faults();

  void Start();

 private:
  void Next();
  void Strike();
  void Kill(Node* node, uint64_t* count);
  void KillChief();
  void Wedge();
  void CutNetwork();
  void ArmCrashPointOfAny();
  Node* Any();

  Cluster* const cluster_;
  World* const world_;
  const FaultRates rates_;
  double total_ = 0;
  int64_t until_us_ = 0;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_FAULTS_H_
