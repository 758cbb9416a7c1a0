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

// One column of records in memory. Text is kept as codes into its distinct words. Numbers are kept
// as they were read; their scale and dtype are applied when a batch is gathered (so images stay
// bytes).
struct Column {
  std::string name;
  Dims dims;  // the shape of one record
  // Shared: a transform that changes only scale or dtype leaves the values where they are.
  DType stored = DType::kInvalid;                      // kInvalid: text
  std::shared_ptr<const std::vector<uint8_t>> values;  // records x elements, row-major
  std::shared_ptr<const std::vector<uint32_t>> codes;  // the same, for text
  std::shared_ptr<const std::vector<std::string>> words;

  DType dtype = DType::kInvalid;  // the dtype in a batch
  double scale = 1.0;             // x * scale + offset, computed in the batch's dtype
  double offset = 0.0;

  // Set for a CSV column that holds other text than numbers and that no transform reads: why it is
  // not a feature.
  std::string not_a_number;

  bool is_text() const { return stored == DType::kInvalid; }
  int64_t elements() const { return NumElements(dims); }
};

// The records of a source: columns of equal length.
struct Table {
  uint64_t records = 0;
  std::vector<Column> columns;
  std::vector<v1::FileFingerprint> files;  // the source files, in order
};

// The records of a source that are used.
struct RowRange {
  uint64_t skip = 0;
  uint64_t take = 0;  // 0: all
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TABLE_H_
