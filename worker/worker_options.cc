#include "worker/worker_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddWorkerFlags(FlagSet* flags, WorkerFlags* out) {
  AddServedFlags(flags, out);
  flags->Add("join", &out->join,
             "HOST:PORT of the chief (its --join_bind) of a running job to join, instead of "
             "TF_CONFIG; several chiefs, separated by commas, are asked in turn");
  flags->Add("data_dir", &out->data_dir,
             "base directory of relative dataset paths (default: $COHORT_DATA_DIR)");
  AddDeviceFlags(flags, &out->devices);
  flags->AddSeconds("ps_timeout_s", &out->ps_timeout_s,
                    "seconds after which an unreachable parameter server is reported");
  flags->AddSeconds(
      "peer_timeout_s", &out->peer_timeout_s,
      "seconds for which a step waits for another worker that runs one of its layers");
}

}  // namespace cohort
