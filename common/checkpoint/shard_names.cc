#include "common/checkpoint/shard_names.h"

#include <charconv>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::string_view kRows = "/rows_";

// Digits alone, without a sign or leading zeros: so that one range has one name.
std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return value;
}

}  // namespace

std::string ShardTensorName::ToString() const {
  return fmt::format("{}{}{}{}{}_{}", variable, slot.empty() ? "" : "@", slot, kRows, row_begin,
                     row_end);
}

std::optional<ShardTensorName> ShardTensorName::Parse(std::string_view name) {
  const size_t rows = name.rfind(kRows);
  if (rows == std::string_view::npos) return std::nullopt;
  const std::string_view range = name.substr(rows + kRows.size());
  const size_t middle = range.find('_');
  if (middle == std::string_view::npos) return std::nullopt;
  const auto begin = ParseNumber(range.substr(0, middle));
  const auto end = ParseNumber(range.substr(middle + 1));
  if (!begin.has_value() || !end.has_value() || *end < *begin) return std::nullopt;
  ShardTensorName parsed;
  parsed.row_begin = *begin;
  parsed.row_end = *end;
  const std::string_view tensor = name.substr(0, rows);
  const size_t at = tensor.find('@');
  parsed.variable = tensor.substr(0, at);
  if (at != std::string_view::npos) {
    parsed.slot = tensor.substr(at + 1);
    if (!CheckSlotName(parsed.slot).ok()) return std::nullopt;
  }
  if (!CheckVariableName(parsed.variable).ok()) return std::nullopt;
  return parsed;
}

absl::Status CheckVariableName(std::string_view variable) {
  if (variable.empty()) return InvalidArgument("the name of a variable is empty");
  if (variable.find('@') != std::string_view::npos) {
    return InvalidArgument(
        "variable \"{}\": '@' separates variable and slot in a checkpoint; rename it", variable);
  }
  return absl::OkStatus();
}

absl::Status CheckSlotName(std::string_view slot) {
  if (slot.empty() || slot.find_first_of("@/") != std::string_view::npos) {
    return InvalidArgument("slot \"{}\": a slot's name is not empty and has no '@' and no '/'",
                           slot);
  }
  return absl::OkStatus();
}

bool IsSlotOfTable(std::string_view slot) {
  return slot == kKeysSlot || slot == kUpdatedSlot || slot == kCountedKeysSlot ||
         slot == kCountsSlot || slot == kCountedSlot;
}

uint64_t RowsOf(std::span<const int64_t> dims) {
  return dims.empty() ? 1 : static_cast<uint64_t>(dims[0]);
}

Dims PieceDims(std::span<const int64_t> dims, uint64_t rows) {
  Dims piece(dims.begin(), dims.end());
  if (!piece.empty()) piece[0] = static_cast<int64_t>(rows);
  return piece;
}

}  // namespace cohort
