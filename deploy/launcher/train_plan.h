#ifndef COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_
#define COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/device/devices.h"
#include "deploy/launcher/local_cluster.h"

namespace cohort {

class FlagSet;

// The flags of `cohort train`.
struct TrainOptions {
  std::string strategy;         // "": the job file's, or one_device
  DeviceOptions devices;        // "": all GPUs, else one CPU device
  int threads = 0;              // for all replicas together; 0: the cores
  bool host_variables = false;  // variables never live on devices
  LocalOptions run;             // directories, plugins, job
};

void AddTrainFlags(FlagSet* flags, TrainOptions* options);

// How one process trains a job: which tasks it has, and what they run on.
//
//   strategy          replicas (workers)   owners of the variables (parameter servers)
//   one_device        one                  one
//   central_storage   one per device       one
//   mirrored          one per device       one per replica, each with its part
struct TrainPlan {
  std::string strategy;
  std::vector<std::string> devices;  // one per replica
  int threads = 1;                   // for each replica
  int homes = 0;                     // LocalServers
  LocalOptions run;                  // its tasks, with a flag for each replica's device
  // "mirrored on cpu:0, cpu:1 (1 thread each)".
  std::string Text() const;
};

// Reads the job file for the name of its strategy. Errors: those of the job file; exit 64 for a
// device that does not exist, several devices for one_device, or a strategy that needs a cluster.
absl::StatusOr<TrainPlan> PlanTraining(const TrainOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_TRAIN_PLAN_H_
