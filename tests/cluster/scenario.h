#ifndef COHORT_TESTS_CLUSTER_SCENARIO_H_
#define COHORT_TESTS_CLUSTER_SCENARIO_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cluster/apply_log.h"
#include "tests/cluster/fault_proxy.h"
#include "tests/cluster/jobs.h"
#include "tests/cluster/mini_cluster.h"
#include "tests/cluster/process_cluster.h"

namespace cohort {

// A cluster in a directory of its own, with the steps that most tests need. If a step fails, the
// method fails the running test and prints the ends of the logs.
class Scenario {
 public:
  using Body = MiniCluster::Body;

  // Starts no task. If `options` has no directory, it makes one and removes it at the end.
  Scenario(Body body, const std::string& name, MiniClusterOptions options);
  // Starts 2 servers and 3 workers.
  Scenario(Body body, const std::string& name, const std::string& job_yaml);

  MiniCluster* operator->() { return cluster_.get(); }
  // Only for the body of processes.
  ProcessCluster* processes() { return static_cast<ProcessCluster*>(cluster_.get()); }

  void Check(const absl::Status& status);
  int ExitOf(TaskRole role, int index, std::chrono::seconds limit);
  // The line that a task wrote.
  std::string Said(TaskRole role, int index, const std::vector<std::string>& texts,
                   std::chrono::seconds limit = std::chrono::seconds(60));
  // Waits for the end of the job: every task must exit with 0, and the apply logs have no
  // violations.
  ApplyReport Finish(std::chrono::seconds limit = std::chrono::seconds(120));
  // What the servers' apply logs show so far, which must have no violations.
  ApplyReport Report(bool finished);
  // Only for a proxied cluster: delays the answers of a server to the workers, so that the job does
  // not end before the test is done with it. Release ends the delay.
  void Pace(int ps, std::chrono::milliseconds delay = std::chrono::milliseconds(20));
  void Release(int ps);
  // Kills a task and starts it again.
  void Bounce(TaskRole role, int index);

 private:
  std::optional<ClusterDirectory> directory_;
  std::unique_ptr<MiniCluster> cluster_;
};

// One scenario, void(Scenario::Body), as two test cases.
#define COHORT_BOTH_BODIES(what, scenario)                                                        \
  TEST_CASE(what ", in one process", "[in_process]") { scenario(MiniCluster::Body::kInProcess); } \
  TEST_CASE(what ", as processes", "[processes]") { scenario(MiniCluster::Body::kProcesses); }

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_SCENARIO_H_
