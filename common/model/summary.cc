#include "common/model/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace cohort {
namespace {

// The characters of a box, as rich prints the tables of Keras: left, between columns, right, line.
struct Rule {
  const char* left;
  const char* middle;
  const char* right;
  const char* line;
};
constexpr Rule kTop{"┏", "┳", "┓", "━"};
constexpr Rule kHeader{"┡", "╇", "┩", "━"};
constexpr Rule kBetween{"├", "┼", "┤", "─"};
constexpr Rule kBottom{"└", "┴", "┘", "─"};

using CellTexts = std::vector<std::string>;

std::string DrawRule(const Rule& rule, const std::vector<size_t>& widths) {
  std::string text = rule.left;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) text += rule.middle;
    for (size_t k = 0; k < widths[i] + 2; ++k) text += rule.line;
  }
  return text + rule.right + "\n";
}

constexpr size_t kParamColumn = 2;  // right-aligned

std::string DrawCells(const CellTexts& cells, const std::vector<size_t>& widths, const char* bar) {
  std::string text = bar;
  for (size_t i = 0; i < cells.size(); ++i) {
    text += i == kParamColumn ? fmt::format(" {:>{}} ", cells[i], widths[i])
                              : fmt::format(" {:<{}} ", cells[i], widths[i]);
    text += bar;
  }
  return text + "\n";
}

std::string Shape(const Dims& dims) {
  std::string text = "(None";
  for (int64_t size : dims) text += fmt::format(", {}", size);
  return text + (dims.empty() ? ",)" : ")");
}

CellTexts RowCells(const ModelSummary::Row& row, bool sequential, bool devices) {
  CellTexts cells = {fmt::format("{} ({})", row.name, row.class_name), Shape(row.dims),
                     WithThousands(row.params)};
  if (!sequential) {
    cells.push_back(
        row.connected_to.empty() ? "-" : fmt::format("{}", fmt::join(row.connected_to, ", ")));
  }
  if (devices) cells.push_back(row.device.empty() ? "-" : row.device);
  return cells;
}

}  // namespace

std::string WithThousands(int64_t number) {
  std::string text = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string ReadableBytes(int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string FormatSummary(const ModelSummary& summary) {
  std::vector<CellTexts> rows = {{"Layer (type)", "Output Shape", "Param #"}};
  if (!summary.sequential) rows[0].push_back("Connected to");
  const bool devices =
      std::ranges::any_of(summary.rows, [](const auto& row) { return !row.device.empty(); });
  if (devices) rows[0].push_back("Device");
  for (const ModelSummary::Row& row : summary.rows) {
    if (summary.sequential && row.class_name == "InputLayer") continue;
    rows.push_back(RowCells(row, summary.sequential, devices));
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const CellTexts& cells : rows) {
    for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
  }
  std::string text = fmt::format("Model: \"{}\"\n", summary.model_name);
  text += DrawRule(kTop, widths) + DrawCells(rows[0], widths, "┃") + DrawRule(kHeader, widths);
  for (size_t i = 1; i < rows.size(); ++i) {
    if (i > 1) text += DrawRule(kBetween, widths);
    text += DrawCells(rows[i], widths, "│");
  }
  text += DrawRule(kBottom, widths);
  const auto count = [&](std::string_view what, int64_t params) {
    const int64_t bytes = summary.param_bytes / std::max<int64_t>(summary.params, 1) * params;
    text += fmt::format(" {} params: {} ({})\n", what, WithThousands(params), ReadableBytes(bytes));
  };
  count("Total", summary.params);
  count("Trainable", summary.params - summary.frozen_params);
  count("Non-trainable", summary.frozen_params);
  return text;
}

}  // namespace cohort
