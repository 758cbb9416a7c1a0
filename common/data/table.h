#ifndef COHORT_COMMON_DATA_TABLE_H_
#define COHORT_COMMON_DATA_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "proto/data.pb.h"

namespace cohort {

// One column of records in memory. Text is kept as codes into its distinct words; numbers as they
// were read, with a scale and a dtype that are applied when a batch is gathered (so images stay
// bytes).
struct Column {
  std::string name;
  Dims dims;  // of one record
  // Shared: a transform that changes only scale or dtype leaves the values where they are.
  DType stored = DType::kInvalid;                      // kInvalid: text
  std::shared_ptr<const std::vector<uint8_t>> values;  // records x elements, row-major
  std::shared_ptr<const std::vector<uint32_t>> codes;  // the same, of text
  std::shared_ptr<const std::vector<std::string>> words;

  DType dtype = DType::kInvalid;  // what a batch has
  double scale = 1.0;             // x * scale + offset, computed in the batch's dtype
  double offset = 0.0;

  // A CSV column that holds something else than numbers and that no transform reads: why it is
  // none.
  std::string not_a_number;

  bool is_text() const { return stored == DType::kInvalid; }
  int64_t elements() const { return NumElements(dims); }
};

// The records of a source: columns of equal length.
struct Table {
  uint64_t records = 0;
  std::vector<Column> columns;
  std::vector<v1::FileFingerprint> files;  // that they were read from, in order
};

// Which records of a source are wanted.
struct RowRange {
  uint64_t skip = 0;
  uint64_t take = 0;  // 0: all
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TABLE_H_
