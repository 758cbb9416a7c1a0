#include "deploy/tf_config/cluster_sources.h"

#include <charconv>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

absl::Status Config(absl::Status status) {
  return WithExitCode(std::move(status), ExitCode::kConfig);
}

// A variable and its name, for errors.
struct Variable {
  std::string name;
  std::string value;
};

// The first of the variables that is set.
absl::StatusOr<Variable> FirstOf(const Environment& environment,
                                 std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* const value = environment(name);
    if (value != nullptr && *value != '\0') return Variable{name, value};
  }
  return Config(InvalidArgument(
      "{} is not set; --from_slurm is for a process that srun or sbatch has started",
      fmt::join(names, " or ")));
}

absl::StatusOr<int> NumberOf(const Variable& variable) {
  int value = -1;
  const std::string& text = variable.value;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 0) {
    return Config(InvalidArgument("{}: \"{}\" is not a number", variable.name, text));
  }
  return value;
}

absl::StatusOr<std::vector<HostSlots>> HostsOfSlurm(const Environment& environment) {
  const bool step = environment("SLURM_STEP_NODELIST") != nullptr &&
                    environment("SLURM_STEP_TASKS_PER_NODE") != nullptr;
  COHORT_ASSIGN_OR_RETURN(
      const Variable nodes,
      FirstOf(environment, {step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"}));
  COHORT_ASSIGN_OR_RETURN(
      const Variable tasks,
      FirstOf(environment, {step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE"}));
  const auto names = ExpandHostList(nodes.value);
  if (!names.ok()) return Config(Annotate(names.status(), nodes.name));
  const auto slots = ExpandTasksPerNode(tasks.value);
  if (!slots.ok()) return Config(Annotate(slots.status(), tasks.name));
  if (names->size() != slots->size()) {
    return Config(InvalidArgument("{} has {} nodes, and {} has {}", nodes.name, names->size(),
                                  tasks.name, slots->size()));
  }
  std::vector<HostSlots> hosts;
  for (size_t i = 0; i < names->size(); ++i) hosts.push_back({(*names)[i], (*slots)[i]});
  return hosts;
}

absl::StatusOr<Distribution> ChooseDistribution(const LayoutOptions& options,
                                                const std::string& other) {
  if (options.distribution.empty()) return ParseDistribution(other);
  auto chosen = ParseDistribution(options.distribution);
  if (!chosen.ok()) return Annotate(chosen.status(), "--distribution");
  return chosen;
}

}  // namespace

absl::StatusOr<FoundCluster> ClusterOfSlurm(const LayoutOptions& options,
                                            const Environment& environment) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, HostsOfSlurm(environment));
  const char* const set = environment("SLURM_DISTRIBUTION");
  auto distribution = ChooseDistribution(options, set == nullptr || *set == '\0' ? "block" : set);
  if (!distribution.ok()) return Config(Annotate(distribution.status(), "SLURM_DISTRIBUTION"));
  const std::vector<std::string> ranks = HostsOfRanks(hosts, *distribution);
  COHORT_ASSIGN_OR_RETURN(const Variable procid, FirstOf(environment, {"SLURM_PROCID"}));
  COHORT_ASSIGN_OR_RETURN(const int rank, NumberOf(procid));
  if (rank >= static_cast<int>(ranks.size())) {
    return Config(InvalidArgument("SLURM_PROCID: task {} of {} tasks", rank, ranks.size()));
  }
  RoleCounts counts = options.counts;
  COHORT_RETURN_IF_ERROR(CompleteCounts(static_cast<int>(ranks.size()), &counts));
  if (counts.total() != static_cast<int>(ranks.size())) {
    return UsageError(
        "--workers: the step has {} tasks, and the cluster {}; start as many tasks "
        "as the cluster has",
        ranks.size(), counts.total());
  }
  // Another distribution than Slurm's would give tasks the addresses of other hosts.
  if (const char* const node = environment("SLURM_NODEID"); node != nullptr) {
    COHORT_ASSIGN_OR_RETURN(const int index, NumberOf({"SLURM_NODEID", node}));
    const std::string& host = ranks[static_cast<size_t>(rank)];
    if (index >= static_cast<int>(hosts.size()) || hosts[static_cast<size_t>(index)].host != host) {
      return Config(
          InvalidArgument("SLURM_NODEID: task {} is on node {} of the list, and its distribution "
                          "puts it on {}; start "
                          "it with srun --distribution=block or cyclic",
                          rank, index, host));
    }
  }
  FoundCluster found;
  COHORT_ASSIGN_OR_RETURN(found.cluster, MakeCluster(ranks, counts, options.port));
  found.own = TaskOfRank(counts, rank);
  return found;
}

}  // namespace cohort
