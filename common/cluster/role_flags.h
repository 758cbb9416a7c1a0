#ifndef COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_
#define COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

class FlagSet;
class Security;

// The flags that all roles have.
struct RoleFlags {
  std::string bind;                      // HOST:PORT to listen on, if it differs from TF_CONFIG
  int threads = 0;                       // 0: the share of the cores
  int admin_port = -1;                   // metrics and health; -1: none, 0: the system chooses
  std::string admin_bind = "127.0.0.1";  // the host that admin_port is opened on
  bool allow_insecure = false;           // plaintext beyond loopback
  std::string tls_dir;                   // certificates (Security); "": plaintext
  std::string secret_file;               // what each stream must carry; "": nothing
  std::string log_file;                  // in addition to stderr
  bool log_to_stderr = true;             // no flag: tasks that share a process write to files only
  std::string log_level = "info";
  std::string crash_point;  // name[:nth]
  // The directory of the unix sockets of one host; "": the user's own; "none": TCP only.
  std::string unix_socket_dir;
  std::vector<std::string> plugins;  // files; the caller loads them (common/plugin/load_plugins.h)
};

// Binds the fields of `out` to `flags`. `out` must outlive `flags`.
void AddRoleFlags(FlagSet* flags, RoleFlags* out);

// The flags of a task that serves a chief.
struct ServedFlags {
  RoleFlags role;
  std::string join;              // a worker: the chiefs to ask for a place in a running cluster
  double chief_timeout_s = 10;   // how long a chief that was lost silently counts as alive
  double chief_wait_s = 300;     // how long the task waits without a chief; 0: forever
  double stall_timeout_s = 600;  // a thread that stands still for longer ends the process; 0: never
  double drain_timeout_s = 10;   // how long running work may take after SIGTERM
};
void AddServedFlags(FlagSet* flags, ServedFlags* out);

// The address to serve metrics and health on; "": the flags ask for no admin port.
std::string AdminAddress(const RoleFlags& flags);
// Declares flags that do not exist yet, for the roles and for the launcher that starts them.
void AddPlannedRoleFlags(FlagSet* flags);

// What a daemon knows about itself after it has read flags and TF_CONFIG.
struct RoleContext {
  ClusterSpec cluster;
  Task task;
  std::optional<Address> advertised;  // its entry in the cluster; a chief may have none
  std::optional<Address> bind;        // none for a chief or evaluator without entry
  std::shared_ptr<const Security> security;
  int threads = 1;
  std::string host_id;
  uint64_t incarnation = 0;
  std::vector<std::string> plugins;  // the files of --plugin
  bool joined = false;  // its cluster is from a chief that it has joined, not TF_CONFIG's
  std::unique_ptr<Logger> log;
};

// Reads TF_CONFIG, checks the flags, arms the crash point and opens the log: the first step of
// every main(). `tf_config` is the value of the environment variable, or nullptr. Only a worker and
// a ps must have an address, and only for them Security checks it. A certificate must be that of
// the task. Errors carry an exit code: 78, or 64 for a wrong value of a flag.
absl::StatusOr<RoleContext> MakeRoleContext(const RoleFlags& flags, Role role,
                                            const char* tf_config);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ROLE_FLAGS_H_
