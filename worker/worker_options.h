#ifndef COHORT_WORKER_WORKER_OPTIONS_H_
#define COHORT_WORKER_WORKER_OPTIONS_H_

#include <string>

#include "common/cluster/role_flags.h"

namespace cohort {

class FlagSet;

// The command line of cohort-worker.
struct WorkerFlags {
  RoleFlags role;
  std::string data_dir;         // relative paths of datasets start here
  double chief_timeout_s = 10;  // a chief lost without a sign counts as alive for so long
  double chief_wait_s = 300;    // without a chief for so long the task ends; 0: never
  double ps_timeout_s = 20;     // a server that cannot be reached for so long is reported
  double drain_timeout_s = 10;  // after SIGTERM, for the step under way
};

void AddWorkerFlags(FlagSet* flags, WorkerFlags* out);

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_OPTIONS_H_
