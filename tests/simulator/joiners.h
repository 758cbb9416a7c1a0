#ifndef COHORT_TESTS_SIMULATOR_JOINERS_H_
#define COHORT_TESTS_SIMULATOR_JOINERS_H_

#include "tests/simulator/cluster.h"

namespace cohort::simulator {

// The workers that TF_CONFIG does not name. Each of their processes asks the chief for a place, as
// common/rpc/task/join_cluster.h does, works for a while, and leaves, unless something kills it.
class Joiners {
 public:
  explicit Joiners(Cluster* cluster) : cluster_(cluster), world_(cluster->world) {}

  // The next process of the worker. It may serve at another port than the one before.
  void Start(Node* worker);

 private:
  // Again and again, until it hears an answer with a place.
  void Ask(Node* worker);
  void LeaveLater(Node* worker);

  Cluster* const cluster_;
  World* const world_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_JOINERS_H_
