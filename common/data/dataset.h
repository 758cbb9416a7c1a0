#ifndef COHORT_COMMON_DATA_DATASET_H_
#define COHORT_COMMON_DATA_DATASET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort::v1 {
class DatasetSpec;
}

namespace cohort {

// A column of a dataset after its transforms: what a model's Input sees of one record.
struct FeatureType {
  std::string name;
  DType dtype = DType::kInvalid;
  Dims dims;  // of one record
};

// The records of one source after skip, take and transforms, by index: immutable, thread-safe, and the
// same in every process that reads the same files.
class Dataset {
 public:
  // Reads (and for CSV: parses) the source and adapts lookups without a vocabulary.
  // Errors: NotFound (a missing file: says the public address, the checksum and COHORT_DATA_DIR),
  // DataLoss (a truncated or corrupt file: which, where), InvalidArgument (a spec that makes no sense).
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(const v1::DatasetSpec& spec);

  virtual ~Dataset() = default;
  virtual uint64_t num_records() const = 0;
  // All features, the label among them.
  virtual const std::vector<FeatureType>& features() const = 0;

  // Gathers records `indices` of the named features (positions in features()) into one tensor each,
  // [indices.size(), dims...].
  virtual absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                              std::vector<Tensor>* batch) const = 0;
};

// The records of an exactly-once epoch: position -> record, a permutation of blocks and of the records
// within a block, keyed by (seed, epoch); the identity where `shuffle` is false.
class EpochOrder {
 public:
  EpochOrder(uint64_t records, uint64_t block_size, bool shuffle, uint64_t seed);
  uint64_t Record(uint64_t epoch, uint64_t position) const;

 private:
  uint64_t records_;
  uint64_t block_size_;
  bool shuffle_;
  uint64_t seed_;
};

// A stream of batches, made ahead in a thread.
class BatchReader {
 public:
  struct Batch {
    std::vector<Tensor> tensors;  // in the order of the asked features
    int64_t records = 0;
  };
  struct Options {
    std::vector<int> features;  // positions in Dataset::features()
    uint32_t batch_size = 0;
    uint32_t prefetch = 2;
    uint64_t seed = 0;
    uint32_t worker_index = 0;
  };

  // visitation independent: an endless (or `repeat` epochs long) shuffled copy of the dataset, keyed by
  // (seed, worker_index), through a shuffle buffer as in tf.data.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Independent(
      std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options);

  // visitation exactly_once: batches are asked for by lease, positions [begin, end) of an epoch.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Leased(
      std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options);

  virtual ~BatchReader() = default;

  // Independent: the next batch; OutOfRange at the end of data.
  virtual absl::Status Next(Batch* batch) = 0;

  // Leased: says which leases will be read, so that they are made ahead; then reads them in that order.
  virtual void Announce(uint64_t epoch, uint64_t begin, uint64_t end) = 0;
  virtual absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_DATASET_H_
