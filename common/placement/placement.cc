#include "common/placement/placement.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "common/placement/partitioner.h"
#include "common/tensor/dtype.h"
#include "common/tensor/table_rows.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// The rows that a step is expected to touch at most in one shard that is read by rows.
constexpr int64_t kRowsPerStep = 1024;

// The cost of a shard for its server.
struct Weight {
  int64_t bytes = 0;    // held
  int64_t traffic = 0;  // moved per step
};

absl::Status CheckVariable(const v1::VariableSpec& variable) {
  if (SizeOf(static_cast<DType>(variable.dtype())) == 0) {
    return InvalidArgument("variable '{}': has no dtype that Cohort knows", variable.name());
  }
  int64_t bytes = static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
  for (const int64_t dim : variable.dims()) {
    if (dim == kTableRows && IsTable(variable.dims())) continue;
    if (dim < 0) return InvalidArgument("variable '{}': axis of size {}", variable.name(), dim);
    if (dim > 0 && bytes > (int64_t{1} << 50) / dim) {
      return InvalidArgument("variable '{}': more than 2^50 bytes", variable.name());
    }
    bytes *= std::max<int64_t>(dim, 1);
  }
  return absl::OkStatus();
}

std::vector<Weight> ShardWeights(const v1::Layout& layout) {
  std::vector<Weight> weights;
  for (const v1::ShardSpec& shard : layout.shards()) {
    const v1::VariableSpec& variable = layout.variables(static_cast<int>(shard.variable()));
    const int64_t row_bytes =
        RowElements(variable) * static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
    const auto rows = static_cast<int64_t>(shard.rows());
    const int64_t moved = variable.row_reads() ? std::min(rows, kRowsPerStep) : rows;
    const auto held = static_cast<int64_t>(HeldRows(variable, shard.rows()));
    weights.push_back({held * row_bytes, moved * row_bytes});
  }
  return weights;
}

// Distributes shards to `bins` bins: the heaviest first, each to the bin with the least load.
// `variable[i]` is the variable of shard i, whose shards are spread; empty: none are spread.
std::vector<int> Balance(std::span<const Weight> weights, std::span<const uint32_t> variable,
                         int bins) {
  Weight total;
  for (const Weight& w : weights) {
    total.bytes += w.bytes;
    total.traffic += w.traffic;
  }
  const auto load = [&](const Weight& w) {
    return static_cast<double>(w.bytes) / static_cast<double>(std::max<int64_t>(total.bytes, 1)) +
           static_cast<double>(w.traffic) /
               static_cast<double>(std::max<int64_t>(total.traffic, 1));
  };
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return load(weights[a]) > load(weights[b]); });

  const uint32_t variables =
      variable.empty() ? 0 : *std::max_element(variable.begin(), variable.end()) + 1;
  std::vector<int> bin_of(weights.size());
  std::vector<Weight> bin(static_cast<size_t>(bins));
  std::vector<int> count(static_cast<size_t>(bins));
  std::vector<std::vector<int>> of_variable(variables, std::vector<int>(bins));
  for (const size_t i : order) {
    int best = 0;
    const auto key = [&](int b) {
      return std::tuple(variable.empty() ? 0 : of_variable[variable[i]][b], load(bin[b]), count[b]);
    };
    for (int b = 1; b < bins; ++b) {
      if (key(b) < key(best)) best = b;
    }
    bin_of[i] = best;
    bin[best].bytes += weights[i].bytes;
    bin[best].traffic += weights[i].traffic;
    ++count[best];
    if (!variable.empty()) ++of_variable[variable[i]][best];
  }
  return bin_of;
}

absl::StatusOr<std::vector<int>> PlaceShards(const v1::Layout& layout,
                                             std::span<const Weight> weights,
                                             const PlacementOptions& options) {
  const int servers = static_cast<int>(options.cores.size());
  if (options.strategy == "round_robin") {
    std::vector<int> ps(weights.size());
    for (size_t i = 0; i < ps.size(); ++i) ps[i] = static_cast<int>(i) % servers;
    return ps;
  }
  if (!options.strategy.empty() && options.strategy != "balanced") {
    return InvalidArgument(
        "strategy.placement: '{}' is unknown; there are 'balanced' and 'round_robin'",
        options.strategy);
  }
  std::vector<uint32_t> variable;
  for (const v1::ShardSpec& shard : layout.shards()) variable.push_back(shard.variable());
  return Balance(weights, variable, servers);
}

// Groups the shards of server `ps` and appends its tablets.
void MakeTablets(std::span<const Weight> weights, std::span<const int> ps_of, int ps,
                 const PlacementOptions& options, v1::Layout* layout) {
  std::vector<int> mine;
  std::vector<Weight> my_weights;
  int64_t bytes = 0;
  for (size_t i = 0; i < ps_of.size(); ++i) {
    if (ps_of[i] != ps) continue;
    mine.push_back(static_cast<int>(i));
    my_weights.push_back(weights[i]);
    bytes += weights[i].bytes;
  }
  if (mine.empty()) return;
  const int64_t worth = bytes / std::max<int64_t>(options.bytes_per_tablet, 1);
  const int64_t most = std::min<int64_t>(std::max(options.cores[static_cast<size_t>(ps)], 1),
                                         static_cast<int64_t>(mine.size()));
  const int tablets = static_cast<int>(std::clamp<int64_t>(worth, 1, most));
  const std::vector<int> group = Balance(my_weights, {}, tablets);
  const auto first = static_cast<uint32_t>(layout->tablets_size());
  for (size_t i = 0; i < mine.size(); ++i) {
    layout->mutable_shards(mine[i])->set_tablet(first + static_cast<uint32_t>(group[i]));
  }
  for (int t = 0; t < tablets; ++t) {
    v1::TabletSpec* tablet = layout->add_tablets();
    tablet->set_tablet(first + static_cast<uint32_t>(t));
    tablet->set_ps(static_cast<uint32_t>(ps));
  }
}

void PlaceCopies(const PlacementOptions& options, v1::Layout* layout) {
  const size_t servers = options.cores.size();
  const auto host = [&](size_t ps) { return ps < options.hosts.size() ? options.hosts[ps] : ""; };
  for (v1::TabletSpec& tablet : *layout->mutable_tablets()) {
    size_t copy = (tablet.ps() + 1) % servers;
    for (size_t next = 1; next < servers; ++next) {
      const size_t ps = (tablet.ps() + next) % servers;
      if (host(ps) == host(tablet.ps())) continue;
      copy = ps;
      break;
    }
    tablet.set_copy(static_cast<uint32_t>(copy) + 1);
  }
}

}  // namespace

absl::StatusOr<v1::Layout> MakeLayout(std::span<const v1::VariableSpec> variables,
                                      const v1::PartitionerSpec& partitioner_spec,
                                      std::span<const v1::OptimizerSpec> optimizers,
                                      const PlacementOptions& options) {
  if (options.cores.empty()) {
    return InvalidArgument("the cluster has no parameter server to place variables on");
  }
  COHORT_ASSIGN_OR_RETURN(const Partitioner partitioner, Partitioner::Create(partitioner_spec));
  v1::Layout layout;
  layout.mutable_optimizers()->Add(optimizers.begin(), optimizers.end());
  for (size_t v = 0; v < variables.size(); ++v) {
    COHORT_RETURN_IF_ERROR(CheckVariable(variables[v]));
    *layout.add_variables() = variables[v];
    if (partitioner.HashesRows(variables[v])) {
      layout.mutable_variables(static_cast<int>(v))->set_hashed_rows(true);
    }
    // Each server has a part of a table, whose size nobody knows in advance.
    const std::vector<RowRange> ranges =
        IsTable(variables[v].dims())
            ? DivideRows(kTableRows, static_cast<int64_t>(options.cores.size()))
            : partitioner.Partition(variables[v]);
    for (const RowRange& range : ranges) {
      v1::ShardSpec* shard = layout.add_shards();
      shard->set_shard(static_cast<uint32_t>(layout.shards_size() - 1));
      shard->set_variable(static_cast<uint32_t>(v));
      shard->set_row_begin(static_cast<uint64_t>(range.begin));
      shard->set_rows(static_cast<uint64_t>(range.rows));
    }
  }
  const std::vector<Weight> weights = ShardWeights(layout);
  COHORT_ASSIGN_OR_RETURN(const std::vector<int> ps_of, PlaceShards(layout, weights, options));
  for (size_t ps = 0; ps < options.cores.size(); ++ps) {
    MakeTablets(weights, ps_of, static_cast<int>(ps), options, &layout);
  }
  if (!options.copies) return layout;
  if (options.cores.size() < 2) {
    return InvalidArgument(
        "strategy.replicas: 2 keeps the copy of each tablet on another parameter server, and the "
        "cluster has one: start a second one");
  }
  PlaceCopies(options, &layout);
  return layout;
}

}  // namespace cohort
