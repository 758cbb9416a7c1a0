#include "common/exchange/exchange_routes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

// The variable's shape and shards; ShardRoute::tablet is still the tablet's number in the job.
absl::StatusOr<VariableRoute> MakeVariable(const v1::Layout& layout, const VariableDecl& decl) {
  VariableRoute route;
  route.name = decl.name;
  route.reads_average = decl.reads_average;
  int index = 0;
  while (index < layout.variables_size() && layout.variables(index).name() != decl.name) ++index;
  if (index == layout.variables_size()) {
    return InvalidArgument("the routes have no variable '{}' ({} variables)", decl.name,
                           layout.variables_size());
  }
  const v1::VariableSpec& spec = layout.variables(index);
  Dims dims;
  for (const Dim& dim : decl.type.dims) dims.push_back(dim.size);
  if (static_cast<int>(spec.dtype()) != static_cast<int>(decl.type.dtype) ||
      !std::equal(dims.begin(), dims.end(), spec.dims().begin(), spec.dims().end())) {
    return InvalidArgument(
        "variable '{}' is {}{} in the program, but {}{} in the routes", decl.name,
        DTypeName(decl.type.dtype), DimsToString(dims), DTypeName(static_cast<DType>(spec.dtype())),
        DimsToString({spec.dims().data(), static_cast<size_t>(spec.dims_size())}));
  }
  const std::span<const int64_t> all(dims);
  route.rows = all.empty() ? 1 : static_cast<uint64_t>(all[0]);
  route.row_elements = all.empty() ? 1 : static_cast<uint64_t>(NumElements(all.subspan(1)));
  route.element_bytes = SizeOf(decl.type.dtype);
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (shard.variable() != static_cast<uint32_t>(index)) continue;
    route.shards.push_back(
        {shard.shard(), shard.row_begin(), shard.rows(), static_cast<int>(shard.tablet())});
  }
  std::sort(route.shards.begin(), route.shards.end(),
            [](const ShardRoute& a, const ShardRoute& b) { return a.row_begin < b.row_begin; });
  uint64_t next = 0;
  for (const ShardRoute& shard : route.shards) {
    if (shard.row_begin != next) {
      return InvalidArgument("shards of variable '{}': row {} expected, shard {} begins at {}",
                             decl.name, next, shard.shard, shard.row_begin);
    }
    next += shard.rows;
  }
  if (next != route.rows) {
    return InvalidArgument("shards of variable '{}' have {} of its {} rows", decl.name, next,
                           route.rows);
  }
  if (spec.hashed_rows()) {
    route.hashed =
        HashedRows(static_cast<int64_t>(route.rows), static_cast<int64_t>(route.shards.size()));
    for (size_t i = 0; i < route.shards.size(); ++i) {
      const int64_t rows = route.hashed->RowsOf(static_cast<int64_t>(i));
      if (static_cast<int64_t>(route.shards[i].rows) == rows) continue;
      return InvalidArgument(
          "shards of variable '{}', whose rows are partitioned by hash: shard {} has {} rows "
          "instead of {}",
          decl.name, route.shards[i].shard, route.shards[i].rows, rows);
    }
  }
  return route;
}

absl::StatusOr<TabletRoute> MakeTablet(const v1::Routes& routes, uint32_t number,
                                       std::map<uint32_t, int>* server_of_ps) {
  const auto& tablets = routes.layout().tablets();
  int position = 0;
  while (position < tablets.size() && tablets[position].tablet() != number) ++position;
  if (position == tablets.size() || number >= static_cast<uint32_t>(routes.terms_size())) {
    return InvalidArgument("the routes have no term or no server for tablet {}", number);
  }
  TabletRoute route;
  route.tablet = number;
  route.term = routes.terms(static_cast<int>(number));
  const uint32_t ps = tablets[position].ps();
  const bool routed = std::any_of(routes.servers().begin(), routes.servers().end(),
                                  [ps](const v1::PsRoute& server) { return server.ps() == ps; });
  if (!routed) return InvalidArgument("the routes have no address for ps:{}", ps);
  route.server = static_cast<int>(ps);
  server_of_ps->emplace(ps, 0);
  return route;
}

}  // namespace

HashedRows::Place VariableRoute::PlaceOf(uint64_t row) const {
  if (hashed.has_value()) return hashed->PlaceOf(static_cast<int64_t>(row));
  size_t low = 0;
  size_t high = shards.size();
  while (high - low > 1) {
    const size_t middle = (low + high) / 2;
    (shards[middle].row_begin <= row ? low : high) = middle;
  }
  return {static_cast<int64_t>(low), static_cast<int64_t>(row - shards[low].row_begin)};
}

absl::StatusOr<std::shared_ptr<const ProgramRoutes>> ProgramRoutes::Make(
    const v1::Routes& routes, std::span<const VariableDecl> variables) {
  auto made = std::make_shared<ProgramRoutes>();
  made->timeline = routes.timeline();
  std::map<uint32_t, int> index_of_tablet;
  for (const VariableDecl& decl : variables) {
    COHORT_ASSIGN_OR_RETURN(VariableRoute route, MakeVariable(routes.layout(), decl));
    for (const ShardRoute& shard : route.shards) {
      index_of_tablet.emplace(static_cast<uint32_t>(shard.tablet), 0);
    }
    made->variables.push_back(std::move(route));
  }
  std::map<uint32_t, int> index_of_ps;
  for (auto& [number, index] : index_of_tablet) {
    index = static_cast<int>(made->tablets.size());
    COHORT_ASSIGN_OR_RETURN(TabletRoute route, MakeTablet(routes, number, &index_of_ps));
    made->tablets.push_back(route);
  }
  for (auto& [ps, index] : index_of_ps) {
    index = static_cast<int>(made->servers.size());
    const auto it = std::find_if(routes.servers().begin(), routes.servers().end(),
                                 [ps = ps](const auto& server) { return server.ps() == ps; });
    made->servers.push_back(
        {ps, it->incarnation(), it->address(), it->unix_socket(), it->host_id(), it->compact()});
  }
  for (TabletRoute& tablet : made->tablets) {
    tablet.server = index_of_ps[static_cast<uint32_t>(tablet.server)];
  }
  for (VariableRoute& variable : made->variables) {
    for (ShardRoute& shard : variable.shards) {
      shard.tablet = index_of_tablet[static_cast<uint32_t>(shard.tablet)];
      made->tablets[static_cast<size_t>(shard.tablet)].shard = shard.shard;
    }
  }
  return std::shared_ptr<const ProgramRoutes>(std::move(made));
}

bool ProgramRoutes::SameShards(const ProgramRoutes& other) const {
  if (variables.size() != other.variables.size() || tablets.size() != other.tablets.size()) {
    return false;
  }
  for (size_t i = 0; i < tablets.size(); ++i) {
    if (tablets[i].tablet != other.tablets[i].tablet) return false;
  }
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].shards != other.variables[i].shards ||
        variables[i].hashed != other.variables[i].hashed) {
      return false;
    }
  }
  return true;
}

}  // namespace cohort
