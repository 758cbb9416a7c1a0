#include "common/data/row_filter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "common/base/fnv1a.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/record_graph.h"
#include "common/data/transform.h"
#include "common/data/transform_class.h"
#include "common/data/words.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr uint64_t kBlockRecords = 4096;

const Column* FindColumn(const Table& table, const std::string& name) {
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](const Column& column) { return column.name == name; });
  return found == table.columns.end() ? nullptr : &*found;
}

// Returns the transforms of the dataset that columns `names` come from, in their order.
std::vector<v1::ColumnTransform> TransformsOf(const v1::DatasetSpec& spec,
                                              std::set<std::string> names) {
  std::vector<v1::ColumnTransform> needed;
  for (auto it = spec.transforms().rbegin(); it != spec.transforms().rend(); ++it) {
    const std::string& output = it->output().empty() ? it->column() : it->output();
    if (names.erase(output) == 0) continue;
    if (!it->column().empty()) names.insert(it->column());
    names.insert(it->columns().begin(), it->columns().end());
    needed.push_back(*it);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

absl::Status CheckLearned(const v1::ColumnTransform& transform) {
  COHORT_ASSIGN_OR_RETURN(const TransformClass* its_class,
                          Transforms().Find(transform.transform_class().class_name()));
  if (!its_class->must_adapt || !its_class->must_adapt(Config(transform.transform_class()))) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "it reads the output of {}, which learns from the records that pass: use a column of the "
      "data",
      its_class->schema.name);
}

// Values of one element for each record.
template <typename T>
std::shared_ptr<const TableVector<T>> KeptOf(const TableVector<T>& values, size_t per_record,
                                             const TableVector<uint64_t>& records) {
  TableVector<T> kept(records.size() * per_record);
  for (size_t i = 0; i < records.size() && per_record > 0; ++i) {
    std::memcpy(kept.data() + i * per_record, values.data() + records[i] * per_record,
                per_record * sizeof(T));
  }
  return std::make_shared<const TableVector<T>>(std::move(kept));
}

// Drops the words that no code names.
void DropUnusedWords(Column* column) {
  constexpr uint32_t kUnused = ~uint32_t{0};
  std::vector<uint32_t> renumbered(column->words->size(), kUnused);
  TableVector<uint32_t> codes;
  std::vector<std::string> words;
  for (const uint32_t code : *column->codes) {
    uint32_t& to = renumbered[code];
    if (to == kUnused) {
      to = static_cast<uint32_t>(words.size());
      words.push_back((*column->words)[code]);
    }
    codes.push_back(to);
  }
  column->codes = std::make_shared<const TableVector<uint32_t>>(std::move(codes));
  column->words = std::make_shared<const std::vector<std::string>>(std::move(words));
}

// Some records of another source.
class KeptRecords : public RecordSource {
 public:
  KeptRecords(ChosenRecords kept, std::shared_ptr<const RecordSource> source)
      : chosen_(std::move(kept)),
        kept_(*chosen_),
        source_(std::move(source)),
        fingerprint_(source_->fingerprint() + " " + FingerprintOf(kept_)) {}

  uint64_t num_records() const override { return kept_.size(); }
  const std::vector<FeatureType>& columns() const override { return source_->columns(); }
  const std::vector<FeatureType>& word_columns() const override { return source_->word_columns(); }
  std::map<std::string, std::string> no_features() const override { return source_->no_features(); }
  std::string fingerprint() const override { return fingerprint_; }
  std::vector<std::string> warnings() const override { return source_->warnings(); }
  std::string Place(uint64_t record, std::string_view column) const override {
    return source_->Place(kept_[record], column);
  }
  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    RecordContext of_source = context;
    of_source.record = kept_[context.record];
    return source_->Read(of_source, values);
  }
  absl::Status ReadWords(uint64_t record, std::span<const size_t> columns,
                         AddWord add) const override {
    return source_->ReadWords(kept_[record], columns, add);
  }
  absl::Status ReadBatch(std::span<const uint64_t> records, bool training,
                         std::span<const std::span<std::byte>> values) const override {
    std::vector<uint64_t> of_source;
    of_source.reserve(records.size());
    for (const uint64_t record : records) of_source.push_back(kept_[record]);
    return source_->ReadBatch(of_source, training, values);
  }

 private:
  const ChosenRecords chosen_;
  const TableVector<uint64_t>& kept_;
  const std::shared_ptr<const RecordSource> source_;
  const std::string fingerprint_;
};

}  // namespace

absl::StatusOr<RowFilter> RowFilter::Create(const v1::DatasetSpec& spec) {
  auto expression = Expression::Parse(spec.filter());
  if (!expression.ok()) return Annotate(expression.status(), "filter");
  return RowFilter(spec.filter(), *std::move(expression));
}

ColumnUse RowFilter::use() const {
  ColumnUse use;
  use.numbers.insert(expression_.columns().begin(), expression_.columns().end());
  for (const auto& comparison : expression_.comparisons()) use.text.insert(comparison.column);
  return use;
}

absl::StatusOr<std::vector<Column>> RowFilter::InputsOf(const v1::DatasetSpec& spec,
                                                        Table* table) const {
  const size_t numbers = expression_.columns().size();
  std::vector<std::string> names = expression_.columns();
  for (const auto& comparison : expression_.comparisons()) names.push_back(comparison.column);
  // A column of the source counts before the output of a transform that replaces it.
  std::vector<Column> inputs(names.size());
  std::set<std::string> made;
  const auto read = [&](size_t i, const Column& column) -> absl::Status {
    inputs[i] = column;
    if (i < numbers) {
      if (!column.not_a_number.empty()) return InvalidArgument("{}", column.not_a_number);
      COHORT_ASSIGN_OR_RETURN(inputs[i], NumbersOf(column));
      return absl::OkStatus();
    }
    v1::ColumnTransform equals;
    equals.set_column(names[i]);
    equals.set_output(fmt::format("\x01{}", i));
    equals.mutable_transform_class()->set_class_name("Equals");
    (*equals.mutable_transform_class()->mutable_config())["value"] =
        ConfigOf(expression_.comparisons()[i - numbers].word);
    COHORT_RETURN_IF_ERROR(ApplyTransform(&equals, table));
    inputs[i] = *FindColumn(*table, equals.output());
    return absl::OkStatus();
  };
  std::vector<bool> is_read(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const Column* const column = FindColumn(*table, names[i]);
    is_read[i] = column != nullptr;
    if (column == nullptr) {
      made.insert(names[i]);
    } else {
      COHORT_RETURN_IF_ERROR(read(i, Column(*column)));
    }
  }
  for (v1::ColumnTransform& transform : TransformsOf(spec, made)) {
    COHORT_RETURN_IF_ERROR(CheckLearned(transform));
    COHORT_RETURN_IF_ERROR(ApplyTransform(&transform, table));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (is_read[i]) continue;
    const Column* const column = FindColumn(*table, names[i]);
    if (column == nullptr) {
      std::vector<std::string> known;
      for (const Column& c : table->columns) known.push_back(PrintableLine(c.name));
      return InvalidArgument("there is no column \"{}\"; there are {}", PrintableLine(names[i]),
                             fmt::join(known, ", "));
    }
    COHORT_RETURN_IF_ERROR(read(i, Column(*column)));
  }
  return inputs;
}

absl::StatusOr<TableVector<uint64_t>> RowFilter::Passing(const v1::DatasetSpec& spec,
                                                         Table table) const {
  const auto at = [&](absl::Status status) {
    return Annotate(std::move(status), fmt::format("filter \"{}\"", PrintableLine(text_)));
  };
  const auto inputs = InputsOf(spec, &table);
  if (!inputs.ok()) return at(inputs.status());
  std::vector<int> nodes;
  for (const Column& column : *inputs) {
    if (column.elements() != 1) {
      return at(InvalidArgument("column \"{}\" has the shape {}, and one number is compared",
                                PrintableLine(column.name), DimsToString(column.dims)));
    }
    nodes.push_back(table.NodeOf(column));
  }
  std::vector<std::vector<std::byte>> bytes(nodes.size());
  std::vector<std::vector<double>> numbers(nodes.size(), std::vector<double>(kBlockRecords));
  std::vector<const double*> columns;
  std::vector<RecordGraph::Output> outputs;
  for (size_t i = 0; i < nodes.size(); ++i) {
    bytes[i].resize(kBlockRecords * table.graph->type(nodes[i]).bytes());
    columns.push_back(numbers[i].data());
    outputs.push_back({nodes[i], bytes[i].data()});
  }
  std::array<double, kBlockRecords> results;
  std::vector<uint64_t> block;
  TableVector<uint64_t> passing;
  for (uint64_t first = 0; first < table.records; first += block.size()) {
    block.clear();
    const uint64_t end = std::min(first + kBlockRecords, table.records);
    for (uint64_t record = first; record < end; ++record) block.push_back(record);
    COHORT_RETURN_IF_ERROR(at(table.graph->Gather(block, outputs, {})));
    for (size_t i = 0; i < nodes.size(); ++i) {
      ConvertNumbers(table.graph->type(nodes[i]).dtype, bytes[i].data(), DType::kFloat64,
                     numbers[i].data(), block.size());
    }
    expression_.Compute(columns, std::span(results).first(block.size()));
    for (size_t i = 0; i < block.size(); ++i) {
      if (results[i] != 0 && !std::isnan(results[i])) passing.push_back(block[i]);
    }
  }
  if (!passing.empty()) return passing;
  return at(InvalidArgument("none of the {} records passes", table.records));
}

std::string FingerprintOf(const TableVector<uint64_t>& records) {
  const std::string_view bytes(reinterpret_cast<const char*>(records.data()),
                               records.size() * sizeof(uint64_t));
  return fmt::format("kept {} {:016x}", records.size(), Fnv1a(bytes));
}

void KeepRecords(const ChosenRecords& records, Table* table) {
  for (Column& column : table->columns) {
    const auto elements = static_cast<size_t>(column.elements());
    if (column.codes != nullptr) {
      column.codes = KeptOf(*column.codes, elements, *records);
      DropUnusedWords(&column);
    }
    if (column.values != nullptr) {
      column.values = KeptOf(*column.values, elements * SizeOf(column.stored), *records);
    }
  }
  table->records = records->size();
  table->source += (table->source.empty() ? "" : " ") + FingerprintOf(*records);
  if (!table->place) return;
  table->place = [place = table->place, records](uint64_t record, std::string_view column) {
    return place((*records)[record], column);
  };
}

std::shared_ptr<const RecordSource> KeepRecords(ChosenRecords records,
                                                std::shared_ptr<const RecordSource> source) {
  return std::make_shared<KeptRecords>(std::move(records), std::move(source));
}

}  // namespace cohort
