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
        steps(p, [this](const std::string& what) { ledger.Violate("{}", what); }) {}

  const Plan& plan;
  World* const world;
  Network network;
  Disk disk;
  Ledger ledger;
  StepLedger steps;
  std::unique_ptr<Node> chief;
  std::vector<std::unique_ptr<Node>> ps;
  std::vector<std::unique_ptr<Node>> workers;
  bool faults_over = false;  // and a user changes the mode no more
  bool finished = false;     // the chief has reported that the job is done

  Node* NodeOf(Task task) {
    if (task.role == Role::kChief) return chief.get();
    const auto& nodes = task.role == Role::kWorker ? workers : ps;
    return nodes[static_cast<size_t>(task.index)].get();
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
