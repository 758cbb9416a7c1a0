#include "common/placement/layout_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/placement/partitioner.h"
#include "common/tensor/dtype.h"
#include "common/tensor/hashed_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Rows = std::pair<uint64_t, uint64_t>;  // [begin, end)

// `shards` ascend.
absl::Status CheckHashed(const v1::VariableSpec& variable, const std::vector<Rows>& shards) {
  const HashedRows hashed(VariableRows(variable), static_cast<int64_t>(shards.size()));
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto rows = static_cast<int64_t>(shards[i].second - shards[i].first);
    if (rows == hashed.RowsOf(static_cast<int64_t>(i))) continue;
    return InvalidArgument(
        "layout: the rows of '{}' are partitioned by hash, and shard {} of it has {} instead of {}",
        variable.name(), i, rows, hashed.RowsOf(static_cast<int64_t>(i)));
  }
  return absl::OkStatus();
}

absl::Status CheckRows(const v1::VariableSpec& variable, std::vector<Rows> shards) {
  const int64_t size = VariableRows(variable);
  const uint64_t rows = size < 0 ? 0 : static_cast<uint64_t>(size);
  std::sort(shards.begin(), shards.end());
  uint64_t next = 0;
  for (const auto& [begin, end] : shards) {
    if (begin < next) {
      return InvalidArgument("layout: row {} of '{}' is in two shards", begin, variable.name());
    }
    if (begin > next) break;
    next = end;
  }
  if (next == rows && variable.hashed_rows()) return CheckHashed(variable, shards);
  if (next == rows) return absl::OkStatus();
  return InvalidArgument("layout: row {} of '{}' is in no shard", next, variable.name());
}

}  // namespace

absl::Status CheckLayout(const v1::Layout& layout) {
  std::set<uint32_t> tablets, numbers;
  for (const v1::TabletSpec& tablet : layout.tablets()) {
    if (!tablets.insert(tablet.tablet()).second) {
      return InvalidArgument("layout: tablet {} occurs twice", tablet.tablet());
    }
  }
  std::map<uint32_t, std::vector<Rows>> rows;  // by variable
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (!numbers.insert(shard.shard()).second) {
      return InvalidArgument("layout: shard {} occurs twice", shard.shard());
    }
    if (tablets.count(shard.tablet()) == 0) {
      return InvalidArgument("layout: shard {} is on tablet {}, which does not exist",
                             shard.shard(), shard.tablet());
    }
    if (shard.variable() >= static_cast<uint32_t>(layout.variables_size())) {
      return InvalidArgument("layout: shard {} belongs to variable {}, and there are {}",
                             shard.shard(), shard.variable(), layout.variables_size());
    }
    const v1::VariableSpec& variable = layout.variables(static_cast<int>(shard.variable()));
    const auto size = static_cast<uint64_t>(std::max<int64_t>(VariableRows(variable), 0));
    if (shard.row_begin() > size || shard.rows() > size - shard.row_begin()) {
      return InvalidArgument("layout: shard {} has {} rows from {} of '{}', which has {}",
                             shard.shard(), shard.rows(), shard.row_begin(), variable.name(), size);
    }
    rows[shard.variable()].emplace_back(shard.row_begin(), shard.row_begin() + shard.rows());
  }
  for (int i = 0; i < layout.variables_size(); ++i) {
    COHORT_RETURN_IF_ERROR(CheckRows(layout.variables(i), rows[static_cast<uint32_t>(i)]));
  }
  return absl::OkStatus();
}

double BytesOfServer(const v1::Layout& layout, uint32_t ps,
                     absl::FunctionRef<size_t(const v1::VariableSpec&)> row_bytes) {
  std::set<uint32_t> tablets;
  for (const v1::TabletSpec& tablet : layout.tablets()) {
    if (tablet.ps() == ps || tablet.copy() == ps + 1) tablets.insert(tablet.tablet());
  }
  double bytes = 0;
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (tablets.count(shard.tablet()) == 0) continue;
    const v1::VariableSpec& variable = layout.variables(static_cast<int>(shard.variable()));
    bytes += static_cast<double>(HeldRows(variable, shard.rows())) *
             static_cast<double>(row_bytes(variable));
  }
  return bytes;
}

}  // namespace cohort
