#ifndef COHORT_COMMON_DATA_DATASET_H_
#define COHORT_COMMON_DATA_DATASET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort::v1 {
class DataFingerprint;
class DataSpec;
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

// A column of a dataset after its transforms: what a model's Input sees of one record. A column of
// a CSV file or a label is a scalar, {}; an Input of shape [1] takes the same bytes.
struct FeatureType {
  std::string name;
  DType dtype = DType::kInvalid;
  Dims dims;  // of one record
};

// What the place where a dataset is opened knows and its spec does not.
struct DataOptions {
  std::string data_dir;  // relative paths start here (COHORT_DATA_DIR); "" = the working directory
};

// The records of one source after skip, take and transforms, by index: immutable, thread-safe, and
// the same in every process that reads the same files. The columns of the sources, before
// transforms:
//
//   generator "recommender"   features (3 strings), label ("yes", "no")
//   idx                       image (dims and dtype of the file), label (int64), where given
//   csv                       the columns of the file: text where a transform looks words up in
//                             it, else float32 numbers
class Dataset {
 public:
  // Reads (and for CSV: parses) the source and adapts lookups without a vocabulary, from this
  // dataset's own records: see ResolveVocabularies.
  // Errors: NotFound (a missing file: says the public address, the checksum and COHORT_DATA_DIR),
  // DataLoss (a truncated or corrupt file: which, where), InvalidArgument (a spec that makes no
  // sense).
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(const v1::DatasetSpec& spec,
                                                             const DataOptions& options = {});

  virtual ~Dataset() = default;
  virtual uint64_t num_records() const = 0;
  // What was read; common/data/fingerprint.h compares.
  virtual const v1::DataFingerprint& fingerprint() const = 0;
  // All features, the label among them.
  virtual const std::vector<FeatureType>& features() const = 0;
  // Columns of the source that are no features, and why: "a.csv: line 3: ...".
  virtual const std::map<std::string, std::string>& no_features() const = 0;
  // The positions of features by name. Errors: InvalidArgument that lists the names there are, or
  // says why a column of the source is no feature (it holds text).
  virtual absl::StatusOr<std::vector<int>> FindFeatures(
      std::span<const std::string> names) const = 0;

  // Gathers records `indices` of the named features (positions in features()) into one tensor each,
  // [indices.size(), dims...]. A tensor that `batch` has already is written again where it fits and
  // nobody else holds it: then nothing is allocated.
  virtual absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                              std::vector<Tensor>* batch) const = 0;
};

// Fills the vocabularies of all lookups that have none, adapted from the training records as Keras'
// StringLookup does, also those of the validation set. The owner of the job calls it once, before
// datasets are sent anywhere, so that every process uses the same ids. Errors: those of Open;
// InvalidArgument where a lookup of the validation set has no counterpart in the training set.
absl::Status ResolveVocabularies(v1::DataSpec* data, const DataOptions& options);

// The records of an exactly-once epoch: position -> record, a permutation of blocks and of the
// records within a block, keyed by (seed, epoch); the identity where `shuffle` is false. Takes no
// memory.
class EpochOrder {
 public:
  // `block_size` 0 counts as 1. The last block may be shorter, wherever the permutation puts it.
  EpochOrder(uint64_t records, uint64_t block_size, bool shuffle, uint64_t seed);
  // `position` < records.
  uint64_t Record(uint64_t epoch, uint64_t position) const;
  // The records of positions [begin, end), cheaper than one by one.
  void Records(uint64_t epoch, uint64_t begin, uint64_t end, std::vector<uint64_t>* records) const;

  uint64_t records() const { return records_; }

 private:
  uint64_t records_;
  uint64_t block_size_;
  bool shuffle_;
  uint64_t seed_;
};

// A stream of batches, made ahead in a thread. One consumer.
class BatchReader {
 public:
  struct Batch {
    std::vector<Tensor> tensors;  // in the order of the asked features
    int64_t records = 0;
  };
  struct Options {
    std::vector<int> features;  // positions in Dataset::features()
    uint32_t batch_size = 0;
    uint32_t prefetch = 2;  // batches made ahead; 0: none, and there is no thread
    uint64_t seed = 0;
    uint32_t worker_index = 0;
    // Independent: batches that a reader like this one has given before: it goes on behind them, as
    // if it were that one.
    uint64_t begin = 0;
    // Batches up to this size are made where they are asked for: ten microseconds for 100 KB, which
    // a hand-over between threads costs too, in wake-ups and in what lies in another core's cache.
    // 0: always in the thread.
    size_t inline_bytes = 128 << 10;
  };

  // visitation independent: an endless (or `repeat` epochs long) shuffled copy of the dataset,
  // keyed by (seed, worker_index), through a shuffle buffer as in tf.data. Batches do not cross
  // epochs: the last one may be short, and is left out with `drop_remainder` (shuffle, batch,
  // repeat, in that order).
  static absl::StatusOr<std::unique_ptr<BatchReader>> Independent(
      std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options);

  // visitation exactly_once: batches are asked for by lease, positions [begin, end) of an epoch.
  // The order is keyed by (seed) alone, equal for all workers.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Leased(std::shared_ptr<const Dataset> dataset,
                                                             const v1::DatasetSpec& spec,
                                                             const Options& options);

  virtual ~BatchReader() = default;

  // Independent: the next batch; OutOfRange at the end of data. Tensors that `batch` holds from
  // before and nobody else does are used again.
  virtual absl::Status Next(Batch* batch) = 0;

  // Leased: says which leases will be read, so that they are made ahead; then reads them in that
  // order. A lease that was not announced is made when it is read; announced ones that are skipped
  // are dropped.
  virtual void Announce(uint64_t epoch, uint64_t begin, uint64_t end) = 0;
  // Errors: InvalidArgument (a lease beyond the epoch's records, or empty).
  virtual absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_DATASET_H_
