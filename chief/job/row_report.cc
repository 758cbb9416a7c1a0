#include "chief/job/row_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/placement/shard_plan.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kColumns = 9;
constexpr int kHotKeysOfLine = 5;
using TableLine = std::array<std::string, kColumns>;

std::string HotKeysText(const v1::RowFigures& of) {
  std::vector<int64_t> keys;
  for (int i = 0; i < std::min(of.hot_size(), kHotKeysOfLine); ++i) keys.push_back(of.hot(i).key());
  return fmt::format("{}", fmt::join(keys, " "));
}

TableLine TableLineOf(const v1::RowFigures& of) {
  const auto number = [](uint64_t value) { return fmt::format("{}", value); };
  return {of.variable(),
          number(of.rows()),
          FormatBytes(static_cast<int64_t>(of.bytes())),
          number(of.pulled()),
          number(of.pushed()),
          number(of.made()),
          number(of.evicted()),
          number(of.not_admitted()),
          HotKeysText(of)};
}

}  // namespace

ClusterRowFigures RowFiguresOf(const CoreState& state) {
  std::vector<const v1::TaskFigures*> servers;
  for (const TaskReport& report : state.server_reports) servers.push_back(report.figures.get());
  return ClusterRowFigures(servers);
}

std::string RowsLine(const ClusterRowFigures& figures) {
  uint64_t pulled = 0, pushed = 0;
  for (const v1::RowFigures& of : figures.variables) {
    pulled += of.pulled();
    pushed += of.pushed();
  }
  std::vector<std::string> shares;
  for (const ServerShare& server : figures.servers) {
    const uint64_t all = std::max<uint64_t>(pulled + pushed, 1);
    shares.push_back(fmt::format(
        "{:.0f} %", 100.0 * static_cast<double>(server.rows) / static_cast<double>(all)));
  }
  return fmt::format("{} pulled, {} pushed; by server {}: skew {:.2f}", pulled, pushed,
                     fmt::join(shares, ", "), figures.skew());
}

std::string RowsTable(const ClusterRowFigures& figures) {
  std::vector<TableLine> lines = {{"Variable", "Rows", "Bytes", "Pulled", "Pushed", "Made",
                                   "Evicted", "Not admitted", "Hottest keys"}};
  for (const v1::RowFigures& of : figures.variables) lines.push_back(TableLineOf(of));
  std::array<size_t, kColumns> width{};
  for (const TableLine& line : lines) {
    for (size_t i = 0; i < kColumns; ++i) width[i] = std::max(width[i], line[i].size());
  }
  std::string text;
  for (const TableLine& line : lines) {
    std::string row;
    for (size_t i = 0; i < kColumns; ++i) row += fmt::format("{:<{}}  ", line[i], width[i]);
    text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace cohort
