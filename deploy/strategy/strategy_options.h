#ifndef COHORT_DEPLOY_STRATEGY_STRATEGY_OPTIONS_H_
#define COHORT_DEPLOY_STRATEGY_STRATEGY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "chief/api/coordinator.h"
#include "common/cluster/role_flags.h"
#include "common/device/device_options.h"
#include "common/tensor/dtype.h"

namespace cohort {

class FlagSet;

// What a Strategy runs on. The defaults suit a first try of every strategy.
struct StrategyOptions {
  // One device for each replica of this process: "cpu:0,cpu:1", "cuda:0". Devices of the CPU are
  // shares of its cores. "": all GPUs, else one CPU device; a strategy of one
  // replica takes the first of them.
  DeviceOptions devices;

  // The value of TF_CONFIG. "": the cluster is in this process, and has this many tasks. Strategies
  // of one process ignore these fields.
  std::string tf_config;
  int workers = 2;
  int parameter_servers = 1;  // ignored if replicas own the variables

  // The number of shares into which a global batch is split, which is that of the gradients in one
  // update. 0: one for each replica. If it is equal, all strategies compute the same bits.
  int num_replicas_in_sync = 0;
  // Refuses a task that would calculate otherwise than the others (its instruction set, say), so
  // that the result does not depend on the tasks. Otherwise such a task is logged.
  bool deterministic = false;

  // Initializers without a seed of their own, and random operations, draw from it.
  uint64_t seed = 0;
  DType dtype = DType::kFloat32;  // the variables have it

  // checkpoints/ and tasks/ (logs) are in it. If it has a checkpoint, the variables continue from
  // there. "": a temporary directory. With TF_CONFIG it is required, and every task must see it.
  std::string directory;
  // The base of relative paths of datasets in this process; "": the working directory. Other
  // processes have their own (--data_dir, $COHORT_DATA_DIR).
  std::string data_dir;
  // The flags of a task: threads (of each task of this process), plugins, log, allow_insecure, ...
  RoleFlags role;
  // Changes any option of the coordinator before it starts; may be null.
  std::function<void(CoordinatorOptions*)> configure;
};

// Adds --strategy, and a flag for each option except TF_CONFIG, seed, dtype and configure.
void AddStrategyFlags(FlagSet* flags, std::string* strategy, StrategyOptions* options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_STRATEGY_STRATEGY_OPTIONS_H_
