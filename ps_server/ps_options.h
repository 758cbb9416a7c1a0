#ifndef COHORT_PS_SERVER_PS_OPTIONS_H_
#define COHORT_PS_SERVER_PS_OPTIONS_H_

#include <cstdint>
#include <string>

#include "common/cluster/role_flags.h"

namespace cohort {

class FlagSet;

// The command line of cohort-ps.
struct PsFlags : ServedFlags {
  PsFlags() { drain_timeout_s = 30; }  // also at the end of the job, for running snapshots

  std::string apply_log;               // see ApplyLog; "": none
  uint64_t copy_bytes_per_second = 0;  // see FillRate; 0: no limit
};

void AddPsFlags(FlagSet* flags, PsFlags* out);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_OPTIONS_H_
