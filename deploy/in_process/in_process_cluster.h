#ifndef COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_CLUSTER_H_
#define COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_CLUSTER_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chief/api/coordinator.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/device/device_options.h"

namespace cohort {

class ExitEvent;
class InProcessTask;
class LocalServers;
struct TaskPlan;

// How the workers of one process reach the variables.
using InProcessCalls = OwnerCalls;

struct InProcessClusterOptions {
  int workers = 1;
  int parameter_servers = 1;  // kReplicas: ignored
  InProcessCalls calls = InProcessCalls::kSockets;
  // The device of each worker, by ParseReplicaDevices. Empty: all GPUs, else the CPU.
  std::vector<std::string> devices;
  DeviceOptions device_options;  // their limits
  int threads = 0;               // each task has this many; 0: its share of the cores
  // Checkpoints (checkpoints/) and the logs of the tasks (tasks/). "": a temporary directory, which
  // is removed with the cluster.
  std::string directory;
  std::string data_dir;  // base of relative paths of datasets; "": the working directory
};

// A cluster for a chief of the same process, as the in-process cluster of TensorFlow's tutorial.
// Workers and parameter servers are objects of this process. They are the real ones, and the chief
// reaches them over sockets.
//
//   COHORT_ASSIGN_OR_RETURN(const auto cluster,
//                           InProcessCluster::Start({.workers = 3, .parameter_servers = 2}));
//   COHORT_ASSIGN_OR_RETURN(const auto coordinator,
//                           ClusterCoordinator::Start(cluster->coordinator_options()));
//
// The cluster must outlive its coordinators. A coordinator that is destroyed leaves the cluster to
// the next one; Shutdown of a coordinator ends its tasks.
class InProcessCluster {
 public:
  // The tasks serve when this returns. The first call configures gRPC for this process and changes
  // its environment variables, so it must precede other threads that read them. Errors:
  // InvalidArgument for a number of tasks below 1, or of devices
  // that is not that of the workers; those of the directory and of the tasks' ports.
  static absl::StatusOr<std::unique_ptr<InProcessCluster>> Start(InProcessClusterOptions options);
  // Ends all tasks at once, and removes a temporary directory.
  ~InProcessCluster();

  // The options of a coordinator of this cluster: its tasks, a checkpoint directory, clock, log and
  // a new incarnation. The caller may change any of them.
  CoordinatorOptions coordinator_options() const;
  const ClusterSpec& spec() const { return spec_; }
  const std::string& directory() const { return options_.directory; }

 private:
  explicit InProcessCluster(InProcessClusterOptions options);
  absl::Status MakeDirectory();
  absl::Status StartTask(Task task, const TaskPlan& plan);

  // Constant once Start has returned.
  InProcessClusterOptions options_;
  bool temporary_ = false;  // the directory is removed at the end
  ClusterSpec spec_;
  std::shared_ptr<LocalServers> local_servers_;  // null: no direct calls
  RealClock clock_;
  std::unique_ptr<Logger> log_;  // the chief writes it
  std::vector<std::unique_ptr<InProcessTask>> tasks_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_CLUSTER_H_
