#ifndef COHORT_CHIEF_CHIEF_OPTIONS_H_
#define COHORT_CHIEF_CHIEF_OPTIONS_H_

#include <absl/status/statusor.h>

#include <string>

#include "chief/chief.h"
#include "common/cluster/role_flags.h"

namespace cohort {

class FlagSet;

// The command line of cohort-chief.
struct ChiefFlags {
  RoleFlags role;
  std::string job;             // JOB.yaml
  std::string checkpoint_dir;  // "" = the job file's
  std::string strategy;        // for which the tasks were started; "" = parameter_server
  std::string log_dir;
  bool fresh = false;
  bool finished_ok = false;
  std::string launch;
  bool takeover = false;
  bool standby = false;
  std::string join_bind;
  double task_timeout_s = 0;  // 0: the job file's
};

void AddChiefFlags(FlagSet* flags, ChiefFlags* out);

// Converts the flags into options; reads the job file. `data_dir`: the value of COHORT_DATA_DIR, or
// null. The context must outlive the result. Errors: those of the job file.
absl::StatusOr<Chief::Options> MakeChiefOptions(const ChiefFlags& flags, const RoleContext& context,
                                                const char* data_dir);

}  // namespace cohort

#endif  // COHORT_CHIEF_CHIEF_OPTIONS_H_
