#include "common/placement/shard_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "common/placement/partitioner.h"
#include "common/tensor/dtype.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Line = std::array<std::string, 6>;

int64_t ShardBytes(const v1::Layout& layout, const v1::ShardSpec& shard) {
  const v1::VariableSpec& variable = layout.variables(static_cast<int>(shard.variable()));
  return static_cast<int64_t>(HeldRows(variable, shard.rows())) * RowElements(variable) *
         static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
}

std::string RowsText(const v1::Layout& layout, const v1::ShardSpec& shard) {
  if (layout.variables(static_cast<int>(shard.variable())).hashed_rows()) {
    return fmt::format("{} by hash", shard.rows());
  }
  return fmt::format("[{}, {})", shard.row_begin(), shard.row_begin() + shard.rows());
}

std::vector<Line> ShardLines(const v1::Layout& layout) {
  std::map<uint32_t, int> shards_of, seen;
  for (const v1::ShardSpec& shard : layout.shards()) ++shards_of[shard.variable()];
  std::vector<Line> lines = {{"Variable", "Shard", "Rows", "Bytes", "PS", "Tablet"}};
  for (const v1::ShardSpec& shard : layout.shards()) {
    const uint32_t ps = layout.tablets(static_cast<int>(shard.tablet())).ps();
    lines.push_back({layout.variables(static_cast<int>(shard.variable())).name(),
                     fmt::format("{}/{}", ++seen[shard.variable()], shards_of[shard.variable()]),
                     RowsText(layout, shard), FormatBytes(ShardBytes(layout, shard)),
                     fmt::format("ps:{}", ps), fmt::format("{}", shard.tablet())});
  }
  return lines;
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string ShardPlanText(const v1::Layout& layout) {
  const std::vector<Line> lines = ShardLines(layout);
  std::array<size_t, 6> width{};
  for (const Line& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) row += fmt::format("{:<{}}  ", line[i], width[i]);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  std::map<uint32_t, std::pair<int, int64_t>> per_ps;
  for (const v1::TabletSpec& tablet : layout.tablets()) per_ps[tablet.ps()].first++;
  for (const v1::ShardSpec& shard : layout.shards()) {
    per_ps[layout.tablets(static_cast<int>(shard.tablet())).ps()].second +=
        ShardBytes(layout, shard);
  }
  for (const auto& [ps, sum] : per_ps) {
    text += fmt::format("ps:{} holds {} in {} tablet{}\n", ps, FormatBytes(sum.second), sum.first,
                        sum.first == 1 ? "" : "s");
  }
  return text;
}

}  // namespace cohort
