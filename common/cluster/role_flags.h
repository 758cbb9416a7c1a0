#ifndef COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_
#define COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/security.h"
#include "common/cluster/tf_config.h"

namespace cohort {

class FlagSet;

// The flags that all roles have.
struct RoleFlags {
  std::string bind;             // HOST:PORT to listen on, where it is not what TF_CONFIG advertises
  int threads = 0;              // 0: the share of the cores
  int admin_port = -1;          // metrics and health; -1: none, 0: the system chooses
  bool allow_insecure = false;  // plaintext beyond loopback
  std::string log_file;         // besides stderr
  std::string log_level = "info";
  std::string crash_point;  // name[:nth]
  std::string
      unix_socket_dir;  // where tasks of one host meet; "": the user's own; "none": TCP only
};

// Binds them to `flags`. `flags` must not outlive `out`.
void AddRoleFlags(FlagSet* flags, RoleFlags* out);
// Those of which it is said that they are not there yet: for the roles, and for who starts them.
void AddPlannedRoleFlags(FlagSet* flags);

// What a daemon knows about itself once flags and TF_CONFIG are read.
struct RoleContext {
  ClusterSpec cluster;
  Task task;
  std::optional<Address> advertised;  // its own entry in the cluster; a chief may have none
  std::optional<Address> bind;  // where it listens; none for a chief or evaluator without entry
  std::shared_ptr<const Security> security;
  int threads = 1;
  bool own_core = false;  // no worker or ps shares one with another
  std::string host_id;
  uint64_t incarnation = 0;
  std::unique_ptr<Logger> log;
};

// Reads TF_CONFIG, checks the flags, arms the crash point, opens the log: the first act of every
// main(). `tf_config` is the value of the environment variable, or nullptr. Only worker and ps must
// have an address, and are refused plaintext beyond loopback without --allow_insecure. Errors: with
// the exit code attached (78; 64 for a wrong value of a flag).
absl::StatusOr<RoleContext> MakeRoleContext(const RoleFlags& flags, Role role,
                                            const char* tf_config);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_
