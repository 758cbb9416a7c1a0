#ifndef COHORT_WORKER_WORKER_OPTIONS_H_
#define COHORT_WORKER_WORKER_OPTIONS_H_

#include <string>

#include "common/cluster/role_flags.h"
#include "common/device/devices.h"

namespace cohort {

class FlagSet;

// The command line of cohort-worker.
struct WorkerFlags {
  RoleFlags role;
  DeviceOptions devices;
  std::string data_dir;         // base of relative dataset paths
  double chief_timeout_s = 10;  // how long a chief that was lost silently counts as alive
  double chief_wait_s = 300;    // how long the task waits without a chief; 0: forever
  double ps_timeout_s = 20;     // how long a server may be unreachable before it is reported
  double peer_timeout_s = 60;   // how long another worker that runs a layer may be unreachable
  double drain_timeout_s = 10;  // how long the current step may take after SIGTERM
};

void AddWorkerFlags(FlagSet* flags, WorkerFlags* out);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_OPTIONS_H_
