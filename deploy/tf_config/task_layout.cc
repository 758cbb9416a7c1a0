#include "deploy/tf_config/task_layout.h"

#include <map>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int kMaxPort = 65535;

}  // namespace

absl::StatusOr<Distribution> ParseDistribution(std::string_view name) {
  // Slurm appends how cores are chosen: "block:cyclic,Pack".
  const std::string_view nodes = name.substr(0, name.find_first_of(":,"));
  if (nodes == "block") return Distribution::kBlock;
  if (nodes == "cyclic") return Distribution::kCyclic;
  return UsageError("\"{}\" is not a distribution of tasks; use block or cyclic", name);
}

absl::Status CompleteCounts(int tasks, RoleCounts* counts) {
  if (counts->ps < 0) return UsageError("--ps: {} is negative", counts->ps);
  const int left = tasks - 1 - counts->ps - (counts->evaluator ? 1 : 0);
  if (counts->workers < 0) counts->workers = left;
  if (counts->workers < 1 || counts->workers > left) {
    return UsageError(
        "{} tasks are too few for a chief, {} ps, {}{}; change --ps or --workers, or allocate more "
        "tasks",
        tasks, counts->ps,
        counts->workers > 0 ? fmt::format("{} workers", counts->workers) : "a worker",
        counts->evaluator ? " and an evaluator" : "");
  }
  return absl::OkStatus();
}

Task TaskOfRank(const RoleCounts& counts, int rank) {
  if (rank == 0) return {Role::kChief, 0};
  if (rank <= counts.ps) return {Role::kPs, rank - 1};
  if (rank <= counts.ps + counts.workers) return {Role::kWorker, rank - 1 - counts.ps};
  return {Role::kEvaluator, 0};
}

std::vector<std::string> HostsOfRanks(const std::vector<HostSlots>& hosts,
                                      Distribution distribution) {
  std::vector<std::string> ranks;
  if (distribution == Distribution::kBlock) {
    for (const HostSlots& host : hosts) {
      ranks.insert(ranks.end(), static_cast<size_t>(host.slots), host.host);
    }
    return ranks;
  }
  for (int round = 0;; ++round) {
    const size_t before = ranks.size();
    for (const HostSlots& host : hosts) {
      if (host.slots > round) ranks.push_back(host.host);
    }
    if (ranks.size() == before) return ranks;
  }
}

absl::StatusOr<ClusterSpec> MakeCluster(const std::vector<std::string>& hosts_of_ranks,
                                        const RoleCounts& counts, int port) {
  ClusterSpec cluster;
  std::map<std::string, int> next_port;
  for (int rank = 0; rank < counts.total(); ++rank) {
    const std::string& host = hosts_of_ranks[static_cast<size_t>(rank)];
    const int own = next_port.try_emplace(host, port).first->second++;
    if (own < 1 || own > kMaxPort) {
      return UsageError("--port: {}, the port of task {} on {}, is not between 1 and {}", own, rank,
                        host, kMaxPort);
    }
    cluster.Set(TaskOfRank(counts, rank), {host, own});
  }
  return cluster;
}

}  // namespace cohort
