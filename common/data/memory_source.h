#ifndef COHORT_COMMON_DATA_MEMORY_SOURCE_H_
#define COHORT_COMMON_DATA_MEMORY_SOURCE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/data/record_source.h"
#include "common/data/table.h"

namespace cohort {

// Columns of numbers in memory. Bytes stay bytes (a quarter of the memory of float32), and are
// converted and scaled when they are read. Numbers of other dtypes are converted once. They may
// stand beside the columns of another source, whose records are read when they are used.
class MemorySource : public RecordSource {
 public:
  explicit MemorySource(uint64_t records) : records_(records) {}
  // Record 0 in memory is the record `first` of `beside`. Records have the numbers of `beside`.
  MemorySource(uint64_t records, std::shared_ptr<const RecordSource> beside, uint64_t first)
      : records_(records),
        beside_(std::move(beside)),
        first_(first),
        columns_(beside_->columns()) {}
  bool is_beside_another() const { return beside_ != nullptr; }

  // Adds a column of numbers, before the first record is read. Returns its position.
  size_t Add(const Column& column);

  uint64_t num_records() const override { return first_ + records_; }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return ""; }  // that of a table names its files
  std::string Place(uint64_t record, std::string_view column) const override {
    return beside_ ? beside_->Place(record, column) : RecordSource::Place(record, column);
  }
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
    std::shared_ptr<const TableVector<uint8_t>> bytes;
    double scale = 1;
    double offset = 0;
  };

  const uint64_t records_;
  const std::shared_ptr<const RecordSource> beside_;  // may be null
  const uint64_t first_ = 0;
  std::vector<FeatureType> columns_;  // those of `beside_`, and those in memory
  std::vector<Values> values_;        // by column in memory
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_MEMORY_SOURCE_H_
