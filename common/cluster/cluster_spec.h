#ifndef COHORT_COMMON_CLUSTER_CLUSTER_SPEC_H_
#define COHORT_COMMON_CLUSTER_CLUSTER_SPEC_H_

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/address.h"

namespace cohort {

enum class Role { kChief = 0, kWorker = 1, kPs = 2, kEvaluator = 3 };
inline constexpr int kNumRoles = 4;

// "chief", "worker", "ps", "evaluator".
std::string_view RoleName(Role role);
// Also accepts "master", the older name of the chief.
std::optional<Role> RoleFromName(std::string_view name);

// One task of a cluster.
struct Task {
  Role role = Role::kChief;
  int index = 0;

  // "worker:2".
  std::string ToString() const;
  auto operator<=>(const Task&) const = default;
};

// The tasks of the cluster and their addresses. Indices may have gaps, because a sparse dictionary
// in TF_CONFIG names only some of the tasks.
class ClusterSpec {
 public:
  // Replaces an older entry.
  void Set(Task task, Address address);

  std::optional<Address> Find(Task task) const;
  // The tasks of a role, by index.
  const std::map<int, Address>& tasks(Role role) const { return roles_[static_cast<int>(role)]; }
  int count(Role role) const { return static_cast<int>(tasks(role).size()); }
  bool empty() const;
  // Chief, workers, ps, evaluators, each by index.
  std::vector<Task> AllTasks() const;

 private:
  std::map<int, Address> roles_[kNumRoles];
};

// How the workers of a cluster reach the owners of the variables.
enum class OwnerCalls : uint8_t {
  kSockets,   // messages to parameter servers
  kDirect,    // calls of parameter servers of the same process
  kReplicas,  // each worker owns a part of the variables (deploy/replica); there are no other owners
};

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_CLUSTER_SPEC_H_
