#ifndef COHORT_WORKER_WORKER_OPTIONS_H_
#define COHORT_WORKER_WORKER_OPTIONS_H_

#include <string>

#include "common/cluster/role_flags.h"
#include "common/device/devices.h"

namespace cohort {

class FlagSet;

// The command line of cohort-worker.
struct WorkerFlags : ServedFlags {
  DeviceOptions devices;
  std::string data_dir;        // base of relative dataset paths
  double ps_timeout_s = 20;    // how long a server may be unreachable before it is reported
  double peer_timeout_s = 60;  // how long another worker that runs a layer may be unreachable
};

void AddWorkerFlags(FlagSet* flags, WorkerFlags* out);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_OPTIONS_H_
