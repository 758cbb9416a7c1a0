#ifndef COHORT_TESTS_CLUSTER_OBJECT_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_OBJECT_CLUSTER_H_

#include <map>
#include <memory>

#include "deploy/in_process/in_process_task.h"
#include "tests/cluster/mini_cluster.h"

namespace cohort {

// The body within this process: every role is an object, messages are real gRPC on loopback. Kill
// destroys the object: its connections break, and a chief is interrupted (it still writes its last
// settle record).
class ObjectCluster : public MiniCluster {
 public:
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(MiniClusterOptions options);
  ~ObjectCluster() override;

  absl::Status Start(TaskRole role, int index, const TaskFlags& flags) override;
  absl::Status Kill(TaskRole role, int index) override;
  bool Running(TaskRole role, int index) override;

 private:
  explicit ObjectCluster(MiniClusterOptions options);
  int EndFd(TaskRole role, int index) override;
  int ExitCode(TaskRole role, int index) override;

  std::map<Key, std::shared_ptr<ExitEvent>> ends_;  // also of tasks that were killed
  std::map<Key, std::unique_ptr<InProcessTask>> tasks_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_OBJECT_CLUSTER_H_
