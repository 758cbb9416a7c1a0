#include "worker/worker_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddWorkerFlags(FlagSet* flags, WorkerFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->Add("data_dir", &out->data_dir,
             "base directory of relative dataset paths (default: $COHORT_DATA_DIR)");
  AddDeviceFlags(flags, &out->devices);
  flags->AddSeconds("chief_timeout_s", &out->chief_timeout_s,
                    "seconds for which a chief that was lost silently keeps other chiefs away");
  flags->AddSeconds("chief_wait_s", &out->chief_wait_s,
                    "seconds without a chief after which this task ends; 0: it waits forever");
  flags->AddSeconds("ps_timeout_s", &out->ps_timeout_s,
                    "seconds after which an unreachable parameter server is reported");
  flags->AddSeconds(
      "peer_timeout_s", &out->peer_timeout_s,
      "seconds for which a step waits for another worker that runs one of its layers");
  flags->AddSeconds("drain_timeout_s", &out->drain_timeout_s,
                    "seconds that the current step may take after SIGTERM");
}

}  // namespace cohort
