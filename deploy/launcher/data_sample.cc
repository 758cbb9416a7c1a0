#include "deploy/launcher/data_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/list_padding.h"
#include "common/run_report/html_text.h"

namespace cohort {
namespace {

constexpr uint64_t kMostRecords = 2000;
// Records that are decoded or computed, such as images.
constexpr uint64_t kMostComputed = 200;
constexpr uint64_t kMostNumbers = 4'000'000;
constexpr size_t kMostDistinct = 1000;
constexpr size_t kMostShown = 8;

uint64_t RecordsToRead(const Dataset& dataset) {
  uint64_t numbers = 1;
  for (const FeatureType& type : dataset.features()) {
    numbers += static_cast<uint64_t>(NumElements(type.dims));
  }
  const uint64_t most = dataset.computes_records() ? kMostComputed : kMostRecords;
  return std::min({dataset.num_records(), most, std::max<uint64_t>(kMostNumbers / numbers, 1)});
}

// The numbers are behind the end of a list (common/data/list_padding.h).
bool IsPadding(double number) {
  return number == static_cast<double>(kNoId) || number == kNoWeight;
}

ColumnSample SampleOf(const FeatureType& type, const Tensor& records) {
  ColumnSample column{.type = type};
  std::vector<double> numbers(static_cast<size_t>(records.num_elements()));
  ConvertNumbers(records.dtype(), records.raw(), DType::kFloat64, numbers.data(), numbers.size());
  const auto per_record = static_cast<size_t>(NumElements(type.dims));
  std::unordered_set<double> distinct;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double number = numbers[i];
    if (!type.dims.empty() && IsPadding(number)) {
      column.ragged = true;
      continue;
    }
    if (i < std::min(per_record, kMostShown)) column.first.push_back(number);
    if (i < per_record) ++column.first_length;
    if (std::isnan(number)) {
      ++column.missing;
      continue;
    }
    if (std::isinf(number)) {
      ++column.infinite;
      continue;
    }
    column.least = column.empty() ? number : std::min(column.least, number);
    column.largest = column.empty() ? number : std::max(column.largest, number);
    ++column.numbers;
    column.whole = column.whole && number == std::floor(number);
    if (distinct.size() < kMostDistinct) {
      distinct.insert(number);
    } else if (!column.more_distinct) {
      column.more_distinct = !distinct.contains(number);
    }
  }
  column.distinct = distinct.size();
  return column;
}

std::string TypeText(const ColumnSample& column) {
  const FeatureType& type = column.type;
  const std::string dtype(DTypeName(type.dtype));
  if (column.ragged) return fmt::format("{}, lists up to {}", dtype, NumElements(type.dims));
  return dtype + (type.dims.empty() ? "" : DimsToString(type.dims));
}

std::string Numbers(const ColumnSample& column) {
  std::string text;
  for (const double number : column.first) {
    text += fmt::format("{}{:.6g}", text.empty() ? "" : " ", number);
  }
  if (column.first_length == 0) return "an empty list";
  return column.first_length > column.first.size() ? text + " ..." : text;
}

}  // namespace

const ColumnSample* DataSample::Find(const std::string& column) const {
  const auto found =
      std::ranges::find_if(columns, [&](const ColumnSample& c) { return c.type.name == column; });
  return found == columns.end() ? nullptr : &*found;
}

std::string DataSample::Text() const {
  ReportTable table{.head = {"column", "type", "range", "missing", "distinct", "first record"},
                    .rows = {}};
  for (const ColumnSample& c : columns) {
    const std::string range =
        c.empty() ? "no number" : fmt::format("[{:.6g}, {:.6g}]", c.least, c.largest);
    table.rows.push_back({c.type.name, TypeText(c),
                          c.infinite > 0 ? range + fmt::format(", {} infinite", c.infinite) : range,
                          fmt::format("{}", c.missing),
                          fmt::format("{}{}", c.more_distinct ? "over " : "", c.distinct),
                          Numbers(c)});
  }
  std::string text =
      fmt::format("columns, in a sample of {} of {} records; a full batch has {}:\n{}", records,
                  all, batch, table.Text());
  for (const auto& [name, why] : unused) {
    text += fmt::format("{} holds no numbers: {}\n", PrintableLine(name), PrintableLine(why));
  }
  return text;
}

absl::StatusOr<DataSample> SampleData(const Dataset& dataset, uint64_t batch_size) {
  DataSample sample;
  sample.all = dataset.num_records();
  sample.records = RecordsToRead(dataset);
  sample.batch = std::min(batch_size, sample.all);
  sample.unused.assign(dataset.no_features().begin(), dataset.no_features().end());
  if (sample.records == 0) return sample;
  std::vector<uint64_t> indices(sample.records);
  for (uint64_t i = 0; i < sample.records; ++i) {
    // Without an overflow for any number of records.
    indices[i] = sample.all / sample.records * i + sample.all % sample.records * i / sample.records;
  }
  std::vector<int> features(dataset.features().size());
  std::iota(features.begin(), features.end(), 0);
  std::vector<Tensor> records;
  COHORT_RETURN_IF_ERROR(dataset.Gather(indices, features, &records));
  for (size_t i = 0; i < records.size(); ++i) {
    sample.columns.push_back(SampleOf(dataset.features()[i], records[i]));
  }
  return sample;
}

}  // namespace cohort
