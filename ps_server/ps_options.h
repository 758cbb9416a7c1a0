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
  double chief_timeout_s = 10;  // a chief lost without a sign counts as alive for so long
  double chief_wait_s = 300;    // without a chief for so long the task ends; 0: never
  double drain_timeout_s = 30;  // after SIGTERM or the job's end, for snapshots under way
};

void AddPsFlags(FlagSet* flags, PsFlags* out);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_OPTIONS_H_
