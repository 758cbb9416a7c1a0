#ifndef COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/mini_cluster.h"

namespace cohort {

// A task as an object of this process: what main.cc builds, without the process around it.
class InProcessTask {
 public:
  virtual ~InProcessTask() = default;
  // The exit code once the task has ended by itself.
  virtual std::optional<int> exit_code() = 0;
};

// The body within this process: every role is an object, messages are real gRPC on loopback. Kill
// destroys the object: its connections break, and a chief is interrupted (it still writes its last
// settle record).
class InProcessCluster : public MiniCluster {
 public:
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(MiniClusterOptions options);
  ~InProcessCluster() override;

  absl::Status Start(TaskRole role, int index, const std::string& crash_point) override;
  absl::Status Kill(TaskRole role, int index) override;
  bool Running(TaskRole role, int index) override;
  absl::StatusOr<int> WaitForExit(TaskRole role, int index, std::chrono::seconds limit) override;
  std::string LogTail(TaskRole role, int index, int lines) override;

 private:
  using Key = std::pair<TaskRole, int>;

  explicit InProcessCluster(MiniClusterOptions options);
  std::string LogFile(TaskRole role, int index) const;

  std::vector<int> worker_ports_;
  std::vector<int> ps_ports_;
  std::map<Key, std::unique_ptr<InProcessTask>> tasks_;
  std::map<Key, int> ended_;  // exit codes
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_
