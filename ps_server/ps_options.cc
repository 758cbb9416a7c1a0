#include "ps_server/ps_options.h"

#include "common/base/flags.h"

namespace cohort {

void AddPsFlags(FlagSet* flags, PsFlags* out) {
  AddRoleFlags(flags, &out->role);
  flags->Add("apply_log", &out->apply_log,
             "file to which one line per push section is appended, for the invariant checker");
  flags->AddSeconds("chief_timeout_s", &out->chief_timeout_s,
                    "seconds for which a silently lost chief still keeps other chiefs away");
  flags->AddSeconds("chief_wait_s", &out->chief_wait_s,
                    "seconds without a chief after which this task ends; 0: it waits forever");
  flags->AddSeconds("drain_timeout_s", &out->drain_timeout_s,
                    "seconds that running snapshots may take after SIGTERM");
}

}  // namespace cohort
