#ifndef COHORT_CHIEF_API_CHIEF_ROLE_H_
#define COHORT_CHIEF_API_CHIEF_ROLE_H_

#include "chief/api/coordinator.h"
#include "common/cluster/role_flags.h"

namespace cohort {

// The options of a coordinator for a program that is started as the chief of a cluster: the tasks
// of TF_CONFIG, incarnation, security, log and the clock of the machine. `context`
// (MakeRoleContext) must outlive the coordinator. The caller sets the job's name and
// checkpoint_dir.
CoordinatorOptions CoordinatorOptionsOf(const RoleContext& context);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CHIEF_ROLE_H_
