#ifndef COHORT_COMMON_DATA_RECORD_SOURCE_H_
#define COHORT_COMMON_DATA_RECORD_SOURCE_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/data/feature_type.h"

namespace cohort {

// The record that is read or transformed.
struct RecordContext {
  uint64_t record = 0;  // its index in the source
  // For training. Random transforms change nothing for evaluation.
  bool training = false;
  // The key of a transform's random numbers (common/tensor/philox.h): a function of the job's seed,
  // the epoch, the record and the transform, so that a step that is repeated draws the same ones.
  uint64_t random_key = 0;
};

// Records that are read by index when a batch needs them, so that they need not fit into memory: a
// file format, a folder of images, a computation. The records and columns of a source never change,
// and a record depends on nothing but its index. Then every worker reads the same records, and an
// epoch reads each one exactly once, although tasks fail. Thread-safe.
class RecordSource {
 public:
  virtual ~RecordSource() = default;

  virtual uint64_t num_records() const = 0;
  // Columns of numbers. Those of words are word_columns().
  virtual const std::vector<FeatureType>& columns() const = 0;
  // Identifies the contents, such as a checksum of the files or their names, sizes and dates. Two
  // processes read the same records if and only if the texts are equal. The chief compares the
  // texts of all workers, of the evaluator, and of an earlier run of the job.
  virtual std::string fingerprint() const = 0;

  // What a person should know of the records, one line each: how many are corrupt and left out.
  virtual std::vector<std::string> warnings() const { return {}; }

  // Columns of words, whose dtype is kInvalid. The words that a transform looks up are read once,
  // when the dataset is opened, and kept in memory as the numbers of distinct words.
  virtual const std::vector<FeatureType>& word_columns() const {
    static const auto& none = *new std::vector<FeatureType>();
    return none;
  }
  // What the files have and no column can be made of, and why: "a.jsonl: \"age\" is missing on line
  // 7". A model that reads such a column is refused with this text.
  virtual std::map<std::string, std::string> no_features() const { return {}; }

  // Names the place of a record's column in the files, for errors: "a.npy: row 3".
  virtual std::string Place(uint64_t record, std::string_view /*column*/) const {
    return fmt::format("record {}", record);
  }

  // Writes the record `context.record` (< num_records()). `values[i]` is the memory of columns()[i]
  // in the batch: columns()[i].bytes() bytes, aligned for its dtype, or none if the batch does not
  // need the column. Several threads may call it at the same time. An error ends the job; the
  // caller adds the names of the source and the record to the message.
  virtual absl::Status Read(const RecordContext& context,
                            std::span<const std::span<std::byte>> values) const = 0;

  // Calls `add(i, word)` for all words of a record in the column `columns[i]` of word_columns(), in
  // their order, for each i. Errors: as Read.
  using AddWord = absl::FunctionRef<void(size_t i, std::string_view word)>;
  virtual absl::Status ReadWords(uint64_t /*record*/, std::span<const size_t> /*columns*/,
                                 AddWord /*add*/) const {
    return Internal("a source of words lacks ReadWords");
  }

  // Writes several records, one after another: `values[i]` has memory for column i of all of
  // them, or none. By default it calls Read for each; a source in memory copies them faster.
  // Errors: those of Read, with the record.
  virtual absl::Status ReadBatch(std::span<const uint64_t> records, bool training,
                                 std::span<const std::span<std::byte>> values) const {
    std::vector<std::span<std::byte>> of_record(values.size());
    for (size_t i = 0; i < records.size(); ++i) {
      for (size_t column = 0; column < values.size(); ++column) {
        const size_t bytes = values[column].size() / records.size();
        of_record[column] = values[column].subspan(i * bytes, bytes);
      }
      const absl::Status read = Read({.record = records[i], .training = training}, of_record);
      if (!read.ok()) return Annotate(read, fmt::format("record {}", records[i]));
    }
    return absl::OkStatus();
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORD_SOURCE_H_
