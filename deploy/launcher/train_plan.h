#ifndef COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_
#define COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/device/devices.h"
#include "common/model/task_plan.h"
#include "deploy/launcher/local_cluster.h"

namespace cohort {

class FlagSet;

// The flags of `cohort train`.
struct TrainOptions {
  std::string strategy;         // "": the job file's, or the default one
  DeviceOptions devices;        // "": all GPUs, else one CPU device
  int threads = 0;              // for all replicas together; 0: the cores
  bool host_variables = false;  // variables never live on devices
  LocalOptions run;             // directories, plugins, job
};

void AddTrainFlags(FlagSet* flags, TrainOptions* options);

// How one process trains a job: which tasks it has, and what they run on.
struct TrainPlan {
  std::string strategy;
  TaskPlan tasks;
  int threads = 1;   // for each replica
  int homes = 0;     // LocalServers
  LocalOptions run;  // with a flag for each replica's device
  // "mirrored on cpu:0, cpu:1 (1 thread each)".
  std::string Text() const;
};

// Reads the job file for the name of its strategy. Errors: those of the job file and of PlanTasks;
// exit 64 for a strategy that needs a cluster.
absl::StatusOr<TrainPlan> PlanTraining(const TrainOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_
