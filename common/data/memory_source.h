#ifndef COHORT_COMMON_DATA_MEMORY_SOURCE_H_
#define COHORT_COMMON_DATA_MEMORY_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "common/data/record_source.h"
#include "common/data/table.h"

namespace cohort {

// Columns of numbers in memory. Bytes stay bytes (a quarter of the memory of float32), and are
// converted and scaled when they are read. Numbers of other dtypes are converted once.
class MemorySource : public RecordSource {
 public:
  explicit MemorySource(uint64_t records) : records_(records) {}

  // Adds a column of numbers, before the first record is read. Returns its position.
  size_t Add(const Column& column);

  uint64_t num_records() const override { return records_; }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return ""; }  // that of a table names its files
  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    return ReadBatch({&context.record, 1}, context.training, values);
  }
  absl::Status ReadBatch(std::span<const uint64_t> records, bool training,
                         std::span<const std::span<std::byte>> values) const override;

 private:
  // Values of the dtype `stored`, and their change to the dtype of the column.
  struct Values {
    DType stored;
    std::shared_ptr<const std::vector<uint8_t>> bytes;
    double scale = 1;
    double offset = 0;
  };

  const uint64_t records_;
  std::vector<FeatureType> columns_;
  std::vector<Values> values_;  // by column
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_MEMORY_SOURCE_H_
