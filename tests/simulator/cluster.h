#ifndef COHORT_TESTS_SIMULATOR_CLUSTER_H_
#define COHORT_TESTS_SIMULATOR_CLUSTER_H_

#include <memory>
#include <vector>

#include "common/base/log.h"
#include "tests/simulator/disk.h"
#include "tests/simulator/ledger.h"
#include "tests/simulator/network.h"
#include "tests/simulator/plan.h"
#include "tests/simulator/step_ledger.h"
#include "tests/simulator/world.h"

namespace cohort::simulator {

// What the processes of a simulated cluster share: only the world around them.
struct Cluster {
  Cluster(const Plan& p, World* w)
      : plan(p),
        world(w),
        network(w, p.network),
        nobody(w, {}, nullptr),
        steps(p, [this](const std::string& what) { ledger.Violate("{}", what); }) {}

  const Plan& plan;
  World* const world;
  Network network;
  Node nobody;  // never alive
  Disk disk;
  Ledger ledger;
  StepLedger steps;
  std::unique_ptr<Node> chief;
  // The last Plan::added_ps and joiners of them are not in TF_CONFIG.
  std::vector<std::unique_ptr<Node>> ps;
  std::vector<std::unique_ptr<Node>> workers;
  bool faults_over = false;  // and a user changes the mode no more
  bool finished = false;     // the chief has reported that the job is done

  // Who serves at the address, dead or alive.
  Node* At(const std::string& address) {
    for (const auto* nodes : {&workers, &ps}) {
      for (const auto& node : *nodes) {
        if (node->address == address) return node.get();
      }
    }
    return &nobody;
  }
  // The log of one incarnation of a task. Its lines go to the trace, if there is one.
  std::unique_ptr<Logger> MakeLog(const Node& node);
};

// The roles. Each runs what the daemon of its name runs, except threads, sockets and files.
std::unique_ptr<Life> StartPs(Cluster* cluster, Node* node);
std::unique_ptr<Life> StartWorker(Cluster* cluster, Node* node);
std::unique_ptr<Life> StartChief(Cluster* cluster, Node* node);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_CLUSTER_H_
