#ifndef COHORT_PS_SERVER_PS_OPTIONS_H_
#define COHORT_PS_SERVER_PS_OPTIONS_H_

#include <string>

#include "common/cluster/role_flags.h"

namespace cohort {

class FlagSet;

// The command line of cohort-ps.
struct PsFlags {
  RoleFlags role;
  std::string apply_log;        // see ApplyLog; "": none
  double chief_timeout_s = 10;  // how long a silently lost chief counts as alive
  double chief_wait_s = 300;    // the task ends after this time without a chief; 0: never
  double drain_timeout_s = 30;  // after SIGTERM or the job's end, for running snapshots
};

void AddPsFlags(FlagSet* flags, PsFlags* out);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_OPTIONS_H_
