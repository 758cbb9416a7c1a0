#ifndef COHORT_COMMON_DATA_TABLE_H_
#define COHORT_COMMON_DATA_TABLE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/table_vector.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "proto/data.pb.h"

namespace cohort {

class MemorySource;
class RecordGraph;

// One column while transforms are applied to it. Text in memory is kept as codes into its distinct
// words. Numbers in memory are kept as they were read, with the scale and the dtype that they have
// in a batch (so images stay bytes).
struct Column {
  std::string name;
  Dims dims;  // the shape of one record
  // Shared: a transform that changes only scale or dtype leaves the values where they are.
  DType stored = DType::kInvalid;                      // kInvalid: text
  std::shared_ptr<const TableVector<uint8_t>> values;  // records x elements, row-major
  std::shared_ptr<const TableVector<uint32_t>> codes;  // the same, for text
  std::shared_ptr<const std::vector<std::string>> words;

  DType dtype = DType::kInvalid;  // the dtype in a batch
  // The source states no dtype (CSV) and no transform has given one: `dtype` is what batches have
  // unless the model needs another one (v1::ColumnRead).
  bool open_dtype = false;
  double scale = 1.0;  // x * scale + offset, computed in the batch's dtype
  double offset = 0.0;

  // Set for a CSV column that holds other text than numbers and that no transform reads: why it is
  // not a feature.
  std::string not_a_number;

  // The column is not in memory: this node of Table::graph reads it, and it has only a name, dims
  // and a dtype. -1: it is in memory.
  int node = -1;

  bool is_in_memory() const { return node < 0; }
  bool is_text() const { return is_in_memory() && stored == DType::kInvalid; }
  // True if the numbers in memory are integers that no scale changes.
  bool is_integer() const {
    return is_in_memory() && stored != DType::kInvalid && !IsFloating(stored) && scale == 1 &&
           offset == 0;
  }
  int64_t elements() const { return NumElements(dims); }
};

// The columns of a dataset, all of one length, and how their records are read.
struct Table {
  uint64_t records = 0;
  std::vector<Column> columns;
  std::vector<v1::FileFingerprint> files;  // the source files, in order
  std::string source;                      // see DataFingerprint

  // Names the place of a record's column in the files, for errors: "a.csv: line 3". Null: the
  // source has read the number alone.
  std::function<std::string(uint64_t record, std::string_view column)> place;
  // What is odd about the records but no error, one line each.
  std::vector<std::string> warnings;

  std::shared_ptr<RecordGraph> graph;
  std::shared_ptr<MemorySource> memory;  // the source of `graph`; it may be beside another one

  // Returns the node of `graph` that reads a column of numbers.
  int NodeOf(const Column& column) const;
  // Returns `place`, or the number of the record.
  std::string PlaceOf(uint64_t record, std::string_view column) const;
};

// The records of a source that are used.
struct RowRange {
  uint64_t skip = 0;
  uint64_t take = 0;  // 0: all
};

// How the columns of a source are used.
struct ColumnUse {
  std::set<std::string> text;     // columns of words
  std::set<std::string> numbers;  // columns that must be numbers. Others become numbers if possible
};

// What a source reads into memory.
struct TableRequest {
  RowRange range;
  ColumnUse use;
};

// Narrows a range to the existing records. Errors: InvalidArgument if the range exceeds them or
// becomes empty.
absl::StatusOr<RowRange> ClampRange(const RowRange& range, uint64_t records);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TABLE_H_
