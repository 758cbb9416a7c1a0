#include "common/data/column_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/dataset.h"
#include "common/data/list_padding.h"
#include "common/data/table.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// float32 holds every integer below it.
constexpr double kExactFloats = 0x1p24;

// True if the number is an integer, and the same one as before it became a T.
template <typename T>
bool IsExactInteger(T value) {
  constexpr double kLimit = std::is_same_v<T, float> ? kExactFloats : 0x1p63;
  return std::abs(value) < static_cast<T>(kLimit) && value == std::trunc(value);
}

template <typename T>
bool IsGood(const ColumnCheck& check, T value) {
  if (check.padding.has_value() && value == static_cast<T>(*check.padding)) return true;
  if constexpr (std::is_floating_point_v<T>) {
    if (check.finite && !std::isfinite(value)) return false;
    if (!check.integers) return true;
    if (!IsExactInteger(value)) return false;
  }
  const auto integer = static_cast<int64_t>(value);
  return check.below == 0 || (integer >= 0 && integer < check.below);
}

// Says what is wrong with a number that is not good.
template <typename T>
std::string ProblemOf(const ColumnCheck& check, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (check.finite && !std::isfinite(value)) {
      return fmt::format("{} cannot be a label", value);
    }
    if (std::isfinite(value) && std::abs(value) >= T{0x1p63}) {
      return fmt::format(
          "{} is not an integer of 64 bits with a sign, and {} reads integers: write such ids as "
          "text, and give the column Hashing",
          value, check.reader);
    }
    if (std::is_same_v<T, float> && std::abs(value) >= kExactFloats) {
      return fmt::format(
          "{} may be rounded: float32 does not hold every integer from 2^24 on, and {} reads "
          "integers; give the column dtype int64",
          value, check.reader);
    }
    if (!IsExactInteger(value)) {
      return fmt::format(
          "{} is not an integer of 64 bits, and {} reads integers: correct the number, or cast the "
          "column",
          value, check.reader);
    }
  }
  return fmt::format(
      "{} does not lie in [0, {}), as {} needs it: correct the number, or raise input_dim or units",
      static_cast<int64_t>(value), check.below, check.reader);
}

template <typename T>
bool IsPadding(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    if (number == static_cast<T>(kNoWeight)) return true;
  }
  return number == static_cast<T>(kNoId);
}

// The length of a list without its padding.
size_t CountOf(const FeatureType& column, const void* values, size_t begin, size_t length) {
  size_t count = 0;
  WithType(column.dtype, [&](auto number) {
    using T = decltype(number);
    const auto* const bytes = static_cast<const std::byte*>(values) + begin * sizeof(T);
    for (; count < length; ++count) {
      std::memcpy(&number, bytes + count * sizeof(T), sizeof(T));
      if (IsPadding(number)) break;
    }
  });
  return count;
}

// "id", or "features"[2] for a number of several.
std::string NameOf(const FeatureType& column, size_t element) {
  const std::string name = fmt::format("\"{}\"", PrintableLine(column.name));
  return column.dims.empty() ? name : fmt::format("{}[{}]", name, element);
}

}  // namespace

absl::Status CheckNumbers(const ColumnCheck& check, const FeatureType& column, const void* values,
                          size_t records, PlaceOfRecord place) {
  if (!check.checks(column.dtype)) return absl::OkStatus();
  const auto elements = static_cast<size_t>(NumElements(column.dims));
  const auto* const bytes = static_cast<const std::byte*>(values);
  absl::Status status;
  WithType(column.dtype, [&](auto number) {
    using T = decltype(number);
    for (size_t i = 0; i < records * elements; ++i) {
      std::memcpy(&number, bytes + i * sizeof(T), sizeof(T));
      if (IsGood(check, number)) continue;
      status = DataLoss("{}: column {}: {}", place(i / elements), NameOf(column, i % elements),
                        ProblemOf(check, number));
      return;
    }
  });
  return status;
}

absl::Status CheckLengths(const FeatureType& ids, const void* id_values, const FeatureType& weights,
                          const void* weight_values, size_t records, PlaceOfRecord place) {
  const auto length = static_cast<size_t>(NumElements(ids.dims));
  if (weights.dims != ids.dims) return absl::OkStatus();  // BuildModel refuses them
  for (size_t i = 0; i < records; ++i) {
    const size_t has_ids = CountOf(ids, id_values, i * length, length);
    const size_t has_weights = CountOf(weights, weight_values, i * length, length);
    if (has_ids == has_weights) continue;
    return DataLoss("{}: column \"{}\": has {} weights, and \"{}\" has {} ids", place(i),
                    PrintableLine(weights.name), has_weights, PrintableLine(ids.name), has_ids);
  }
  return absl::OkStatus();
}

const v1::ColumnRead* FindRead(const v1::DatasetSpec& spec, const Table& table,
                               const std::string& column) {
  const auto find = [&](const std::string& name) {
    const auto found = std::find_if(spec.reads().begin(), spec.reads().end(),
                                    [&](const auto& read) { return read.column() == name; });
    return found == spec.reads().end() ? nullptr : &*found;
  };
  if (const v1::ColumnRead* const read = find(column)) return read;
  const std::vector<std::string> targets = TargetsOf(spec);
  const auto is_label = [&](const std::string& name) {
    return std::find(targets.begin(), targets.end(), name) != targets.end();
  };
  const auto features =
      std::count_if(table.columns.begin(), table.columns.end(),
                    [&](const Column& c) { return !c.is_text() && !is_label(c.name); });
  if (is_label(column) || features != 1) return nullptr;
  // The model names none, or an Input by its own name.
  for (const v1::ColumnRead& read : spec.reads()) {
    if (!is_label(read.column())) return &read;
  }
  return nullptr;
}

ColumnCheck CheckOf(const v1::ColumnRead* read, bool is_label) {
  ColumnCheck check = {.finite = is_label};
  if (read == nullptr) return check;
  check.integers = read->dtype() == DTypeName(DType::kInt64);
  check.below = read->below();
  check.reader = read->reader();
  if (read->has_padding()) check.padding = read->padding();
  return check;
}

absl::Status ReadColumnAs(const v1::ColumnRead* read, const ColumnCheck& check, const Table& table,
                          Column* column) {
  const DType before = column->dtype;
  if (read != nullptr && column->open_dtype) {
    column->dtype = DTypeFromName(read->dtype()).value_or(before);
  }
  const auto check_as = [&](DType dtype, const void* values, uint64_t first, uint64_t records) {
    return CheckNumbers(check, {column->name, dtype, column->dims}, values, records,
                        [&](size_t record) { return table.PlaceOf(first + record, column->name); });
  };
  if (!check.checks(IsFloating(column->stored) ? column->stored : before)) return absl::OkStatus();
  if (column->is_integer() && (column->open_dtype || !IsFloating(before))) {
    return check_as(column->stored, column->values->data(), 0, table.records);
  }
  // The numbers of the batch, except that an open dtype has rounded none of them.
  const DType wide = column->open_dtype ? DType::kFloat64 : before;
  constexpr uint64_t kBlockRecords = 4096;
  const auto elements = static_cast<size_t>(column->elements());
  std::vector<uint8_t> numbers(std::min(kBlockRecords, table.records) * elements * SizeOf(wide));
  for (uint64_t first = 0; first < table.records; first += kBlockRecords) {
    const uint64_t records = std::min(kBlockRecords, table.records - first);
    ConvertNumbers(column->stored,
                   column->values->data() + first * elements * SizeOf(column->stored), wide,
                   numbers.data(), records * elements, column->scale, column->offset);
    COHORT_RETURN_IF_ERROR(check_as(wide, numbers.data(), first, records));
  }
  return absl::OkStatus();
}

}  // namespace cohort
