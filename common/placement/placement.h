#ifndef COHORT_COMMON_PLACEMENT_PLACEMENT_H_
#define COHORT_COMMON_PLACEMENT_PLACEMENT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cohort::v1 {
class Layout;
class OptimizerSpec;
class PartitionerSpec;
class VariableSpec;
}  // namespace cohort::v1

namespace cohort {

struct PlacementOptions {
  // "round_robin": one counter over all shards in creation order, as TensorFlow does.
  // "balanced" (also ""): every shard, the heaviest first, goes to the server with the least load
  // so far. The load is the share of all bytes held plus the share of all bytes moved per step. A
  // variable that is read by rows moves only the rows of a batch. Shards of one variable are spread
  // first: no server gets another one while some server has fewer.
  std::string strategy;
  // Cores of each parameter server, by index; its size is the number of servers.
  std::vector<int> cores;
  // A server gets one more tablet for each this many bytes: a small model gains nothing from many
  // tablets and pays for a section of the message for each.
  int64_t bytes_per_tablet = 256 << 10;
  // Each tablet has a copy on another server: the next one on another host, or the next one.
  bool copies = false;
  std::vector<std::string> hosts;  // by server; empty: all on one
};

// Cuts the variables (in creation order) into shards, places the shards on servers, and groups the
// shards of each server into tablets: at most one per core, balanced as above. Shards are numbered
// in creation order, tablets by server. The same input gives the same layout in every process.
// `optimizers`: those that VariableSpec.optimizer counts.
// Errors: InvalidArgument that names the variable or the key of the job file.
absl::StatusOr<v1::Layout> MakeLayout(std::span<const v1::VariableSpec> variables,
                                      const v1::PartitionerSpec& partitioner,
                                      std::span<const v1::OptimizerSpec> optimizers,
                                      const PlacementOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_PLACEMENT_H_
