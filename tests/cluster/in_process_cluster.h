#ifndef COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_
#define COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_

#include <map>
#include <memory>
#include <optional>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "tests/cluster/mini_cluster.h"

namespace cohort {

// A task as an object of this process: what main.cc builds, without the process around it.
class InProcessTask {
 public:
  virtual ~InProcessTask() = default;
};

// The end of a task: a file descriptor that becomes readable, and the exit code.
class ExitEvent {
 public:
  ExitEvent();

  int fd() const { return fd_.get(); }
  // The first call counts.
  void Set(int exit_code);
  std::optional<int> exit_code();

 private:
  const UniqueFd fd_;
  Mutex mu_;
  std::optional<int> exit_code_ ABSL_GUARDED_BY(mu_);
};

// The body within this process: every role is an object, messages are real gRPC on loopback. Kill
// destroys the object: its connections break, and a chief is interrupted (it still writes its last
// settle record).
class InProcessCluster : public MiniCluster {
 public:
  static absl::StatusOr<std::unique_ptr<MiniCluster>> Create(MiniClusterOptions options);
  ~InProcessCluster() override;

  absl::Status Start(TaskRole role, int index, const TaskFlags& flags) override;
  absl::Status Kill(TaskRole role, int index) override;
  bool Running(TaskRole role, int index) override;

 private:
  explicit InProcessCluster(MiniClusterOptions options);
  int EndFd(TaskRole role, int index) override;
  int ExitCode(TaskRole role, int index) override;

  // The ends outlive the tasks that ring them.
  std::map<Key, std::unique_ptr<ExitEvent>> ends_;
  std::map<Key, std::unique_ptr<InProcessTask>> tasks_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_IN_PROCESS_CLUSTER_H_
