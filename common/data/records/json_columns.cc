#include "common/data/records/json_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/records/json_record.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

using Kind = JsonValue::Kind;

// More are not found, but declared: keys that are data would be columns.
constexpr size_t kMaxFoundColumns = 10'000;

struct JsonFieldKind {
  ClassSchema schema;
};

std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 60;
  return fmt::format("\"{}\"", PrintableLine(text.substr(0, kMost)));
}

// The value as an integer of the column. Errors: DataLoss if the column cannot hold it.
absl::StatusOr<int64_t> IntegerOf(const FeatureType& column, const JsonValue& value) {
  constexpr double kLimit = 0x1p63;
  int64_t integer = value.integer;
  if (value.kind == Kind::kFloat) {
    if (std::abs(value.number) >= kLimit) {
      return DataLoss(
          "{} is not an integer of 64 bits with a sign: write such ids as text, declare the column "
          "as words, and give it Hashing",
          value.text);
    }
    if (value.number != std::trunc(value.number) || std::abs(value.number) >= kLimit) {
      return DataLoss("{} is no value of {}: give the column another dtype", value.text,
                      DTypeName(column.dtype));
    }
    integer = static_cast<int64_t>(value.number);
  }
  bool fits = true;
  WithType(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>) {
      fits = integer == 0 || integer == 1;
    } else if constexpr (std::is_integral_v<T>) {
      fits = std::in_range<T>(integer);
    }
  });
  if (fits) return integer;
  return DataLoss("{} is no value of {}: give the column another dtype", integer,
                  DTypeName(column.dtype));
}

// What stands for values that a record lacks, unless the field says it. False for a column that
// cannot hold the number, such as one of bools: there a value that is missing stays an error.
bool SetMissing(double missing, RecordField* field) {
  if (field->is_words()) {
    if (!field->missing_word) field->missing_word = "";
  } else if (!field->missing) {
    if (!CheckFill(field->type, "missing", missing).ok()) return false;
    field->missing = missing;
  }
  return true;
}

}  // namespace

const SchemaSet& JsonFieldKinds() {
  const auto path = [] {
    return std::vector<Argument>{
        String("path", "The keys that lead to it, with dots between them; none: its name.")
            .Optional()};
  };
  static const auto& kinds = *new ClassRegistry<JsonFieldKind>(
      "column kind", SchemaSet::Spelling::kAnyCase, "",
      {{.schema = TensorFieldSchema(path())}, {.schema = WordsFieldSchema(path())}});
  return kinds;
}

// What a record has of each column.
struct JsonColumns::Values {
  struct Numbers {
    bool is_needed = true;
    std::vector<int64_t> integers;  // a column of integers has these
    std::vector<double> numbers;    // another has these
    bool is_there = false;
  };
  struct Words {
    std::vector<std::string> words;
    bool is_there = false;
  };
  std::vector<Numbers> numbers;  // by column
  std::vector<Words> words;

  void Clear(size_t columns, size_t word_columns) {
    numbers.resize(columns);
    words.resize(word_columns);
    for (Numbers& column : numbers) {
      column.integers.clear();
      column.numbers.clear();
      column.is_there = false;
      column.is_needed = true;
    }
    for (Words& column : words) {
      column.words.clear();
      column.is_there = false;
    }
  }
};

void JsonColumns::Add(RecordField field, const std::string& path) {
  places_[path].push_back(
      {field.is_words(), field.is_words() ? word_fields_.size() : fields_.size()});
  (field.is_words() ? word_columns_ : columns_).push_back(field.type);
  (field.is_words() ? word_fields_ : fields_).push_back(std::move(field));
}

absl::StatusOr<JsonColumns> JsonColumns::Create(
    const std::map<std::string, v1::ClassConfig>& columns, const std::optional<double>& missing) {
  JsonColumns made;
  for (const auto& [name, config] : columns) {
    COHORT_ASSIGN_OR_RETURN(RecordField field, MakeRecordField(name, config));
    const Config arguments(config);
    if (missing) (void)SetMissing(*missing, &field);
    made.Add(std::move(field), arguments.IsNone("path") ? name : arguments.String("path"));
  }
  return made;
}

absl::Status JsonColumns::Collect(std::string_view record, bool words, Values* values) const {
  const auto add_number = [&](size_t column, const JsonValue& value) -> absl::Status {
    Values::Numbers& to = values->numbers[column];
    if (!to.is_needed) return absl::OkStatus();
    const RecordField& field = fields_[column];
    if (value.kind == Kind::kText) {
      return DataLoss(
          "{} is text, and the column holds numbers: declare it as words, and give it "
          "Hashing or a lookup if these are ids",
          Quoted(value.text));
    }
    if (value.kind == Kind::kNull) {
      if (!value.in_list) return absl::OkStatus();
      if (!field.missing) return DataLoss("has null in a list: `missing` would stand for it");
    }
    to.is_there = true;
    const double missing = field.missing.value_or(0);
    if (IsFloating(field.type.dtype)) {
      to.numbers.push_back(value.kind == Kind::kNull ? missing : value.number);
    } else if (value.kind == Kind::kNull) {
      to.integers.push_back(static_cast<int64_t>(missing));
    } else {
      COHORT_ASSIGN_OR_RETURN(to.integers.emplace_back(), IntegerOf(field.type, value));
    }
    return absl::OkStatus();
  };
  const auto add_word = [&](size_t column, const JsonValue& value) -> absl::Status {
    Values::Words& to = values->words[column];
    const RecordField& field = word_fields_[column];
    if (value.kind == Kind::kNull && !value.in_list) return absl::OkStatus();
    if (value.kind == Kind::kNull && !field.missing_word) {
      return DataLoss("has null in a list: `missing` would stand for it");
    }
    to.is_there = true;
    if (value.kind == Kind::kBool) {
      to.words.emplace_back(value.integer == 0 ? "false" : "true");
    } else if (value.kind == Kind::kInteger) {
      to.words.push_back(fmt::format("{}", value.integer));
    } else {
      to.words.emplace_back(value.kind == Kind::kNull ? *field.missing_word : value.text);
    }
    return absl::OkStatus();
  };
  return VisitJson(record, [&](std::string_view path, const JsonValue& value) -> absl::Status {
    const auto places = places_.find(path);
    if (places == places_.end()) return absl::OkStatus();
    for (const Place& place : places->second) {
      if (place.is_words != words) continue;
      const absl::Status added =
          words ? add_word(place.column, value) : add_number(place.column, value);
      const auto& types = words ? word_columns_ : columns_;
      if (!added.ok()) {
        return Annotate(added, fmt::format("column {}", Quoted(types[place.column].name)));
      }
    }
    return absl::OkStatus();
  });
}

absl::Status JsonColumns::Write(const Values& values,
                                std::span<const std::span<std::byte>> out) const {
  for (size_t c = 0; c < fields_.size(); ++c) {
    const Values::Numbers& from = values.numbers[c];
    if (!from.is_needed) continue;
    const RecordField& field = fields_[c];
    absl::Status written;
    if (!from.is_there) {
      written = field.may_be_missing()
                    ? field.WriteMissing(out[c])
                    : DataLoss("is missing: `missing` would stand for it (`columns`)");
    } else if (IsFloating(field.type.dtype)) {
      written =
          field.WriteNumbers(DType::kFloat64, from.numbers.data(), from.numbers.size(), out[c]);
    } else {
      written =
          field.WriteNumbers(DType::kInt64, from.integers.data(), from.integers.size(), out[c]);
    }
    if (!written.ok()) return Annotate(written, fmt::format("column {}", Quoted(field.type.name)));
  }
  return absl::OkStatus();
}

absl::Status JsonColumns::Decode(std::string_view record,
                                 std::span<const std::span<std::byte>> values) const {
  thread_local Values collected;
  collected.Clear(fields_.size(), word_fields_.size());
  for (size_t c = 0; c < fields_.size(); ++c) collected.numbers[c].is_needed = !values[c].empty();
  COHORT_RETURN_IF_ERROR(Collect(record, /*words=*/false, &collected));
  return Write(collected, values);
}

absl::Status JsonColumns::DecodeWordsOf(std::string_view record, std::span<const size_t> columns,
                                        RecordSource::AddWord add) const {
  Values collected;
  collected.Clear(fields_.size(), word_fields_.size());
  COHORT_RETURN_IF_ERROR(Collect(record, /*words=*/true, &collected));
  for (size_t i = 0; i < columns.size(); ++i) {
    const RecordField& field = word_fields_[columns[i]];
    Values::Words& from = collected.words[columns[i]];
    const auto at = [&](absl::Status status) {
      return Annotate(std::move(status), fmt::format("column {}", Quoted(field.type.name)));
    };
    if (!from.is_there && field.missing_word)
      from.words.assign(field.elements(), *field.missing_word);
    if (!from.is_there && !field.may_be_missing()) {
      return at(DataLoss("is missing: `missing` would stand for it (`columns`)"));
    }
    const auto used = field.UsedOf(from.words.size());
    if (!used.ok()) return at(used.status());
    for (size_t w = 0; w < *used; ++w) add(i, from.words[w]);
    for (size_t w = *used; w < field.elements(); ++w) add(i, *field.word_padding);
  }
  return absl::OkStatus();
}

absl::Status JsonColumns::Check(std::string_view record) const {
  Values collected;
  collected.Clear(fields_.size(), word_fields_.size());
  COHORT_RETURN_IF_ERROR(Collect(record, /*words=*/false, &collected));
  COHORT_RETURN_IF_ERROR(Write(collected, std::vector<std::span<std::byte>>(fields_.size())));
  std::vector<size_t> all(word_fields_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return DecodeWordsOf(record, all, [](size_t, std::string_view) {});
}

absl::Status JsonColumnFinder::Add(std::string_view record) {
  // A record that could not be read has left its counts.
  for (Found* const touched : touched_) touched->current = 0;
  touched_.clear();
  COHORT_RETURN_IF_ERROR(
      VisitJson(record, [&](std::string_view path, const JsonValue& value) -> absl::Status {
        if (value.kind == Kind::kNull && !value.in_list) return absl::OkStatus();
        auto at = found_.find(path);
        if (at == found_.end()) {
          if (found_.size() == kMaxFoundColumns) {
            return DataLoss("has more than {} columns: name those to read under `columns`",
                            kMaxFoundColumns);
          }
          at = found_.emplace(path, Found{.number = found_.size()}).first;
        }
        Found& found = at->second;
        if (found.current++ == 0) touched_.push_back(&found);
        found.is_list = found.is_list || value.in_list;
        found.has_null = found.has_null || value.kind == Kind::kNull;
        found.has_text = found.has_text || value.kind == Kind::kText;
        found.has_float = found.has_float || value.kind == Kind::kFloat;
        found.has_integer = found.has_integer || value.kind == Kind::kInteger;
        return absl::OkStatus();
      }));
  for (Found* const touched : touched_) {
    Found& found = *touched;
    if (!found.is_lacking && found.records != records_) {
      found.is_lacking = true;
      found.lacks = found.records;
    }
    found.least = found.records == 0 ? found.current : std::min(found.least, found.current);
    found.most = std::max(found.most, found.current);
    ++found.records;
    found.current = 0;
  }
  ++records_;
  return absl::OkStatus();
}

JsonColumns JsonColumnFinder::Finish(const std::optional<double>& missing,
                                     absl::FunctionRef<std::string(uint64_t record)> place,
                                     std::map<std::string, std::string>* no_features) const {
  std::vector<const std::string*> paths(found_.size());
  for (const auto& [path, found] : found_) paths[found.number] = &path;
  JsonColumns columns;
  for (const std::string* path : paths) {
    const Found& found = found_.find(*path)->second;
    const bool lacking = found.is_lacking || found.records < records_;
    std::string& why = (*no_features)[*path];
    if (lacking && !missing) {
      why = fmt::format(
          "{}: column {} is missing: declare it under `columns`, with a value for `missing`",
          place(found.is_lacking ? found.lacks : found.records), Quoted(*path));
    } else if (found.has_null && !missing) {
      why = fmt::format(
          "column {} has null in a list: declare it under `columns`, with a value for `missing`",
          Quoted(*path));
    } else if (found.least != found.most || (!found.is_list && found.most > 1)) {
      why = fmt::format(
          "column {} has {} to {} values: declare it under `columns`, with a `shape` and "
          "`pad_with`",
          Quoted(*path), found.least, found.most);
    } else {
      no_features->erase(*path);
      RecordField field;
      field.type.name = *path;
      if (found.is_list) field.type.dims = {static_cast<int64_t>(found.most)};
      field.type.dtype = found.has_text      ? DType::kInvalid
                         : found.has_float   ? DType::kFloat32
                         : found.has_integer ? DType::kInt64
                                             : DType::kBool;
      if (missing && (lacking || found.has_null)) {
        // A column that cannot hold the number has another dtype.
        if (field.type.dtype == DType::kBool && !SetMissing(*missing, &field)) {
          field.type.dtype = DType::kInt64;
        }
        if (!SetMissing(*missing, &field)) {
          field.type.dtype = DType::kFloat32;
          field.missing = *missing;
        }
      }
      columns.Add(std::move(field), *path);
    }
  }
  return columns;
}

}  // namespace cohort
