#include "chief/api/chief_role.h"

namespace cohort {

CoordinatorOptions CoordinatorOptionsOf(const RoleContext& context) {
  static const RealClock& clock = *new RealClock;
  CoordinatorOptions options;
  options.cluster = context.cluster;
  options.chief_incarnation = context.incarnation;
  options.security = context.security;
  options.clock = &clock;
  options.log = context.log.get();
  options.plugins = context.plugins;
  return options;
}

}  // namespace cohort
