#include "common/data/transform.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/status.h"
#include "common/data/csv_reader.h"
#include "common/data/lookup.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using Transform = v1::ColumnTransform;

std::vector<std::string> InputsOf(const Transform& transform) {
  if (!transform.column().empty()) return {transform.column()};
  return {transform.columns().begin(), transform.columns().end()};
}

std::string OutputOf(const Transform& transform) {
  if (!transform.output().empty()) return transform.output();
  return transform.column();
}

bool ReadsText(const Transform& transform) {
  return !transform.lookup().empty() || !transform.equals().empty();
}

bool IsScaled(const Transform& transform) {
  return (transform.scale() != 0 && transform.scale() != 1) || transform.offset() != 0;
}

template <typename T>
std::shared_ptr<const std::vector<uint8_t>> BytesOf(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

absl::Status CheckShape(const Transform& transform) {
  if (transform.column().empty() == transform.columns().empty()) {
    return InvalidArgument("give either `column` or `columns`");
  }
  if (OutputOf(transform).empty()) return InvalidArgument("`columns` needs an `output`: its name");
  if (!transform.lookup().empty() && transform.lookup() != "string") {
    return InvalidArgument("lookup: \"{}\" is unknown; there is \"string\"", transform.lookup());
  }
  if (!transform.lookup().empty() && !transform.equals().empty()) {
    return InvalidArgument("`lookup` and `equals` exclude each other");
  }
  if (ReadsText(transform) && IsScaled(transform)) {
    return InvalidArgument("`scale` and `offset` apply to numbers, not to `lookup` and `equals`");
  }
  if (transform.num_oov_indices() > 1) {
    return Unimplemented("num_oov_indices: {}: only 1 is supported", transform.num_oov_indices());
  }
  if (transform.lookup().empty() &&
      (!transform.vocabulary().empty() || transform.num_oov_indices() > 0)) {
    return InvalidArgument("`vocabulary` and `num_oov_indices` need `lookup: string`");
  }
  if (!transform.dtype().empty() && !DTypeFromName(transform.dtype()).has_value()) {
    return InvalidArgument("dtype: \"{}\" is unknown", transform.dtype());
  }
  return absl::OkStatus();
}

absl::StatusOr<const Column*> FindColumn(const Table& table, const std::string& name) {
  std::string known;
  for (const Column& column : table.columns) {
    if (column.name == name) return &column;
    known += (known.empty() ? "" : ", ") + column.name;
  }
  return InvalidArgument("there is no column \"{}\"; there are {}", name, known);
}

// Returns one element of a number column as a double, scaled as in a batch.
double ElementOf(const Column& column, size_t i) {
  const uint8_t* at = column.values->data() + i * SizeOf(column.stored);
  const auto load = [&]<typename T>(T value) {
    std::memcpy(&value, at, sizeof(T));
    return static_cast<double>(value);
  };
  double value = 0;
  switch (column.stored) {
    case DType::kFloat32:
      value = load(float{});
      break;
    case DType::kFloat64:
      value = load(double{});
      break;
    case DType::kInt32:
      value = load(int32_t{});
      break;
    case DType::kInt64:
      value = load(int64_t{});
      break;
    default:
      value = *at;
  }
  return value * column.scale + column.offset;
}

// Parses the words of a text column as numbers.
absl::StatusOr<Column> NumbersOf(const Column& column) {
  if (!column.is_text()) return column;
  if (!column.not_a_number.empty()) return InvalidArgument("{}", column.not_a_number);
  std::vector<double> of_word;
  for (const std::string& word : *column.words) {
    double value = 0;
    if (!ParseNumber(word, &value)) {
      return InvalidArgument("column \"{}\" holds text, \"{}\": give it a lookup or equals",
                             column.name, word);
    }
    of_word.push_back(value);
  }
  std::vector<double> values;
  values.reserve(column.codes->size());
  for (const uint32_t code : *column.codes) values.push_back(of_word[code]);
  Column numbers;
  numbers.name = column.name;
  numbers.dims = column.dims;
  numbers.stored = DType::kFloat64;
  numbers.dtype = DType::kFloat32;
  numbers.values = BytesOf(values);
  return numbers;
}

// Stacks the records of several columns of equal dims along a new last axis.
template <typename T, typename Get>
std::vector<T> Interleave(const std::vector<const Column*>& parts, size_t elements,
                          const Get& get) {
  std::vector<T> all;
  all.reserve(elements * parts.size());
  for (size_t i = 0; i < elements; ++i) {
    for (size_t p = 0; p < parts.size(); ++p) all.push_back(get(p, i));
  }
  return all;
}

absl::StatusOr<Column> StackText(const std::vector<const Column*>& parts, uint64_t records) {
  // The words of all columns are in one dictionary, so that they have one vocabulary.
  std::vector<std::string> words;
  std::vector<uint32_t> shift;
  for (const Column* part : parts) {
    shift.push_back(static_cast<uint32_t>(words.size()));
    words.insert(words.end(), part->words->begin(), part->words->end());
  }
  std::vector<std::string> distinct = words;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<uint32_t> code_of(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    code_of[i] = static_cast<uint32_t>(
        std::lower_bound(distinct.begin(), distinct.end(), words[i]) - distinct.begin());
  }
  Column stacked;
  const auto elements = records * static_cast<uint64_t>(parts[0]->elements());
  stacked.codes = std::make_shared<const std::vector<uint32_t>>(Interleave<uint32_t>(
      parts, elements,
      [&](size_t p, size_t i) { return code_of[shift[p] + (*parts[p]->codes)[i]]; }));
  stacked.words = std::make_shared<const std::vector<std::string>>(std::move(distinct));
  return stacked;
}

absl::StatusOr<Column> StackNumbers(const std::vector<const Column*>& parts, uint64_t records) {
  std::vector<Column> numbers;
  std::vector<const Column*> pointers;
  for (const Column* part : parts) {
    COHORT_ASSIGN_OR_RETURN(numbers.emplace_back(), NumbersOf(*part));
  }
  for (const Column& column : numbers) pointers.push_back(&column);
  const bool equal = std::all_of(numbers.begin(), numbers.end(),
                                 [&](const Column& c) { return c.dtype == numbers[0].dtype; });
  Column stacked;
  const auto elements = records * static_cast<uint64_t>(numbers[0].elements());
  stacked.values = BytesOf(Interleave<double>(
      pointers, elements, [&](size_t p, size_t i) { return ElementOf(numbers[p], i); }));
  stacked.stored = DType::kFloat64;
  stacked.dtype = equal ? numbers[0].dtype : DType::kFloat32;
  return stacked;
}

// Returns the input of the transform as one column.
absl::StatusOr<Column> InputOf(const Transform& transform, const Table& table) {
  std::vector<const Column*> parts;
  for (const std::string& name : InputsOf(transform)) {
    COHORT_ASSIGN_OR_RETURN(const Column* column, FindColumn(table, name));
    if (!column->not_a_number.empty()) return InvalidArgument("{}", column->not_a_number);
    if (!parts.empty() && column->dims != parts[0]->dims) {
      return InvalidArgument("columns \"{}\" {} and \"{}\" {} cannot be stacked", parts[0]->name,
                             DimsToString(parts[0]->dims), name, DimsToString(column->dims));
    }
    parts.push_back(column);
  }
  if (!transform.column().empty()) return *parts[0];
  const bool text =
      std::all_of(parts.begin(), parts.end(), [](const Column* c) { return c->is_text(); });
  COHORT_ASSIGN_OR_RETURN(
      Column stacked, text ? StackText(parts, table.records) : StackNumbers(parts, table.records));
  stacked.dims = parts[0]->dims;
  stacked.dims.push_back(static_cast<int64_t>(parts.size()));
  return stacked;
}

absl::Status ApplyLookup(const Transform& transform, Column* column,
                         std::vector<std::string>* vocabulary) {
  if (!column->is_text()) {
    return InvalidArgument("column \"{}\" holds numbers, a string lookup needs words",
                           column->name);
  }
  vocabulary->assign(transform.vocabulary().begin(), transform.vocabulary().end());
  if (vocabulary->empty()) *vocabulary = AdaptVocabulary(*column->codes, *column->words);
  COHORT_ASSIGN_OR_RETURN(const auto ids, LookupIds(*column->words, *vocabulary));
  std::vector<int64_t> values;
  values.reserve(column->codes->size());
  for (const uint32_t code : *column->codes) values.push_back(ids[code]);
  column->values = BytesOf(values);
  column->stored = column->dtype = DType::kInt64;
  return absl::OkStatus();
}

absl::Status ApplyEquals(const Transform& transform, uint64_t records, Column* column) {
  const auto elements = records * static_cast<uint64_t>(column->elements());
  std::vector<uint8_t> values(elements);
  if (column->is_text()) {
    for (size_t i = 0; i < elements; ++i) {
      values[i] = (*column->words)[(*column->codes)[i]] == transform.equals() ? 1 : 0;
    }
  } else {
    double wanted = 0;
    if (!ParseNumber(transform.equals(), &wanted)) {
      return InvalidArgument("equals: column \"{}\" holds numbers, \"{}\" is not one", column->name,
                             transform.equals());
    }
    for (size_t i = 0; i < elements; ++i) values[i] = ElementOf(*column, i) == wanted ? 1 : 0;
  }
  column->values = BytesOf(values);
  column->stored = DType::kUint8;
  column->dtype = DType::kFloat32;
  column->scale = 1;
  column->offset = 0;
  return absl::OkStatus();
}

absl::Status ApplyNumbers(const Transform& transform, Column* column) {
  COHORT_ASSIGN_OR_RETURN(*column, NumbersOf(*column));
  if (!IsScaled(transform)) return absl::OkStatus();
  const double scale = transform.scale() == 0 ? 1 : transform.scale();
  column->scale *= scale;
  column->offset = column->offset * scale + transform.offset();
  if (!IsFloating(column->dtype)) column->dtype = DType::kFloat32;
  return absl::OkStatus();
}

absl::Status Apply(const Transform& transform, Table* table, std::vector<std::string>* vocabulary) {
  COHORT_RETURN_IF_ERROR(CheckShape(transform));
  COHORT_ASSIGN_OR_RETURN(Column column, InputOf(transform, *table));
  if (!transform.lookup().empty()) {
    COHORT_RETURN_IF_ERROR(ApplyLookup(transform, &column, vocabulary));
  } else if (!transform.equals().empty()) {
    COHORT_RETURN_IF_ERROR(ApplyEquals(transform, table->records, &column));
  } else {
    COHORT_RETURN_IF_ERROR(ApplyNumbers(transform, &column));
  }
  column.codes = nullptr;
  column.words = nullptr;
  column.name = OutputOf(transform);
  if (!transform.dtype().empty()) column.dtype = *DTypeFromName(transform.dtype());
  const auto same = std::find_if(table->columns.begin(), table->columns.end(),
                                 [&](const Column& c) { return c.name == column.name; });
  if (same == table->columns.end()) {
    table->columns.push_back(std::move(column));
  } else {
    *same = std::move(column);
  }
  return absl::OkStatus();
}

}  // namespace

CsvUse UseOfColumns(const v1::DatasetSpec& spec) {
  CsvUse use;
  std::set<std::string> made;  // names that no longer stand for a column of the source
  for (const Transform& transform : spec.transforms()) {
    for (const std::string& name : InputsOf(transform)) {
      if (!made.contains(name)) (ReadsText(transform) ? use.text : use.numbers).insert(name);
    }
    made.insert(OutputOf(transform));
  }
  if (!spec.label().empty() && !made.contains(spec.label())) use.numbers.insert(spec.label());
  return use;
}

absl::Status ApplyTransform(const v1::ColumnTransform& transform, Table* table,
                            std::vector<std::string>* vocabulary) {
  vocabulary->clear();
  const absl::Status status = Apply(transform, table, vocabulary);
  return Annotate(status, fmt::format("transform of \"{}\"", OutputOf(transform)));
}

}  // namespace cohort
