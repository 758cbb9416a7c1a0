#include "common/cluster/cluster_spec.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace cohort {
namespace {

constexpr std::string_view kRoleNames[kNumRoles] = {"chief", "worker", "ps", "evaluator"};

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames[static_cast<int>(role)]; }

std::optional<Role> RoleFromName(std::string_view name) {
  if (name == "master") return Role::kChief;
  for (int i = 0; i < kNumRoles; ++i) {
    if (kRoleNames[i] == name) return static_cast<Role>(i);
  }
  return std::nullopt;
}

std::string Task::ToString() const { return fmt::format("{}:{}", RoleName(role), index); }

void ClusterSpec::Set(Task task, Address address) {
  roles_[static_cast<int>(task.role)][task.index] = std::move(address);
}

std::optional<Address> ClusterSpec::Find(Task task) const {
  const auto& tasks = roles_[static_cast<int>(task.role)];
  const auto it = tasks.find(task.index);
  if (it == tasks.end()) return std::nullopt;
  return it->second;
}

bool ClusterSpec::empty() const { return AllTasks().empty(); }

std::vector<Task> ClusterSpec::AllTasks() const {
  std::vector<Task> all;
  for (int r = 0; r < kNumRoles; ++r) {
    for (const auto& [index, address] : roles_[r]) all.push_back({static_cast<Role>(r), index});
  }
  return all;
}

}  // namespace cohort
