#ifndef COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/base/unique_fd.h"
#include "common/os/child_process.h"
#include "tests/cluster/mini_cluster.h"

namespace cohort {

// The body of real processes: the daemons of this build tree, one TF_CONFIG each.
class ProcessCluster : public MiniCluster {
 public:
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(MiniClusterOptions options);
  ~ProcessCluster() override;

  absl::Status Start(TaskRole role, int index, const TaskFlags& flags) override;
  absl::Status Kill(TaskRole role, int index) override;
  bool Running(TaskRole role, int index) override;

  // The task's next start takes its program from this directory. "": that of the build tree.
  void UsePrograms(TaskRole role, int index, std::string directory) {
    program_dirs_[{role, index}] = std::move(directory);
  }
  // Sends a signal to a running task.
  absl::Status Signal(TaskRole role, int index, int signal);
  pid_t pid(TaskRole role, int index) const { return processes_.at({role, index}).child->pid(); }

 private:
  struct Process {
    std::unique_ptr<ChildProcess> child;  // the last one that was started; null: none
    UniqueFd pid_fd;                      // readable when it has ended
  };

  ProcessCluster(MiniClusterOptions options, std::string binary_dir);
  int EndFd(TaskRole role, int index) override;
  int ExitCode(TaskRole role, int index) override;
  static bool IsAlive(const Process& process);

  std::string binary_dir_;
  std::map<Key, std::string> program_dirs_;  // by UsePrograms
  std::map<Key, Process> processes_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_PROCESS_CLUSTER_H_
