#ifndef COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/mini_cluster.h"

namespace cohort {

// Reserves distinct free ports of loopback. They may be taken by others before they are used; tests
// run on a machine of their own.
std::vector<int> FreePorts(int count);

// The body of real processes: the daemons of this build tree, one TF_CONFIG each.
class ProcessCluster : public MiniCluster {
 public:
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(MiniClusterOptions options);
  ~ProcessCluster() override;

  absl::Status Start(TaskRole role, int index, const std::string& crash_point) override;
  absl::Status Kill(TaskRole role, int index) override;
  bool Running(TaskRole role, int index) override;
  absl::StatusOr<int> WaitForExit(TaskRole role, int index, std::chrono::seconds limit) override;
  std::string LogTail(TaskRole role, int index, int lines) override;

  // Sends a signal to a running task.
  absl::Status Signal(TaskRole role, int index, int signal);

 private:
  using Key = std::pair<TaskRole, int>;
  struct Process {
    pid_t pid = -1;
    bool running = false;
    int exit_code = 0;
  };

  ProcessCluster(MiniClusterOptions options, std::string binary_dir);
  std::vector<std::string> CommandLine(TaskRole role, int index,
                                       const std::string& crash_point) const;
  std::string LogFile(TaskRole role, int index) const;
  void Reap(Process* process, bool block);

  std::string binary_dir_;
  std::vector<int> worker_ports_;
  std::vector<int> ps_ports_;
  std::map<Key, Process> processes_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_
