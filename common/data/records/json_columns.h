#ifndef COHORT_COMMON_DATA_RECORDS_JSON_COLUMNS_H_
#define COHORT_COMMON_DATA_RECORDS_JSON_COLUMNS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/record_source.h"
#include "common/data/records/record_field.h"

namespace cohort {

class SchemaSet;

// The kinds of columns of JSON objects: `tensor` and `words`, with a `path`.
const SchemaSet& JsonFieldKinds();

// The columns of records that are JSON objects.
class JsonColumns {
 public:
  // `columns`: complete configs of JsonFieldKinds() by name. `missing` stands for what a record
  // lacks in columns that say nothing about it; words are empty then. Errors: InvalidArgument that
  // begins with the name.
  static absl::StatusOr<JsonColumns> Create(const std::map<std::string, v1::ClassConfig>& columns,
                                            const std::optional<double>& missing);

  const std::vector<FeatureType>& columns() const { return columns_; }
  const std::vector<FeatureType>& word_columns() const { return word_columns_; }

  // Decodes the columns for which `values` has memory. Errors: DataLoss with the column.
  absl::Status Decode(std::string_view record, std::span<const std::span<std::byte>> values) const;
  // As RecordSource::ReadWords. Errors: DataLoss with the column.
  absl::Status DecodeWordsOf(std::string_view record, std::span<const size_t> columns,
                             RecordSource::AddWord add) const;
  // Finds out whether all columns of a record can be decoded. Errors: DataLoss.
  absl::Status Check(std::string_view record) const;

  // Adds a column.
  void Add(RecordField field, const std::string& path);

 private:
  struct Place {
    bool is_words;
    size_t column;
  };
  struct Values;
  absl::Status Collect(std::string_view record, bool words, Values* values) const;
  absl::Status Write(const Values& values, std::span<const std::span<std::byte>> out) const;

  std::vector<FeatureType> columns_;
  std::vector<RecordField> fields_;
  std::vector<FeatureType> word_columns_;
  std::vector<RecordField> word_fields_;
  std::map<std::string, std::vector<Place>, std::less<>> places_;  // by path
};

// Finds the columns of records that declare none: every path to a value. Integers alone are int64,
// other numbers float32, true and false bool; text is words. Lists of one length have it as shape.
class JsonColumnFinder {
 public:
  // Reads the next record. Errors: those of VisitJson; DataLoss for too many columns.
  absl::Status Add(std::string_view record);
  // `place` names that of a record, for the reasons. `no_features` gets the paths that some records
  // lack or whose lists differ in length, and why.
  // `missing`: as JsonColumns::Create.
  JsonColumns Finish(const std::optional<double>& missing,
                     absl::FunctionRef<std::string(uint64_t record)> place,
                     std::map<std::string, std::string>* no_features) const;

 private:
  struct Found {
    size_t number = 0;  // in the order of the first appearance
    uint64_t records = 0;
    uint64_t lacks = 0;  // the first record without it, if `is_lacking`
    bool is_lacking = false;
    bool is_list = false, has_null = false, has_text = false, has_float = false,
         has_integer = false;
    uint64_t current = 0;  // values in the current record
    uint64_t least = 0, most = 0;
  };

  uint64_t records_ = 0;
  std::map<std::string, Found, std::less<>> found_;
  std::vector<Found*> touched_;  // the current record has these
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_JSON_COLUMNS_H_
