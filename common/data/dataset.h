#ifndef COHORT_COMMON_DATA_DATASET_H_
#define COHORT_COMMON_DATA_DATASET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/data/column_check.h"
#include "common/data/data_options.h"
#include "common/data/feature_type.h"
#include "common/tensor/tensor.h"

namespace cohort::v1 {
class DataFingerprint;
class DataSpec;
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

class RecordGraph;
struct Table;
class ThreadPool;

// The columns that are labels, in the order of the model's outputs.
std::vector<std::string> LabelsOf(const v1::DatasetSpec& spec);
// The labels and the columns that weigh records: what a model does not take as an input.
std::vector<std::string> TargetsOf(const v1::DatasetSpec& spec);
// True for a validation set with `sample_weight: null`: its records have no weights, although those
// of the training set may have.
bool IsUnweighted(const v1::DatasetSpec& spec);

// The records of one source after skip, take and transforms, by index: immutable, thread-safe, and
// the same in every process that reads the same files. `cohort reference` prints the sources with
// their columns.
class Dataset {
 public:
  // Reads (and for CSV: parses) the source. Adapts lookups without a vocabulary from the records of
  // this dataset (see ResolveVocabularies). Errors: NotFound for a missing file, with its public
  // address, its checksum and COHORT_DATA_DIR; DataLoss for a truncated or corrupt file, with file
  // and position, and for a number that the model cannot read (DatasetSpec::reads);
  // InvalidArgument for an inconsistent spec.
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(const v1::DatasetSpec& spec,
                                                             const DataOptions& options = {});

  ~Dataset();
  uint64_t num_records() const { return records_; }
  // The fingerprint of the records; common/data/fingerprint.h compares two.
  const v1::DataFingerprint& fingerprint() const { return *fingerprint_; }
  // All features, the label among them.
  const std::vector<FeatureType>& features() const { return features_; }
  // The columns of the source that are not features, and why: "a.csv: line 3: ...".
  const std::map<std::string, std::string>& no_features() const { return no_features_; }
  // Returns the positions of features by name. Errors: InvalidArgument that lists the known names,
  // or explains why a column of the source is not a feature (it holds text).
  absl::StatusOr<std::vector<int>> FindFeatures(std::span<const std::string> names) const;

  // What is odd about the records, one line each, for a person: an `equals` that matches none.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // True if the records are read or computed when they are gathered, which takes longer than a
  // copy.
  bool computes_records() const { return computes_records_; }

  // How records are gathered.
  struct GatherOptions {
    // For training: random transforms are active, and draw from this key, which differs by epoch.
    bool training = false;
    uint64_t random_key = 0;
    ThreadPool* helpers = nullptr;  // share the records with the caller; null: it does them alone
  };

  // Gathers records `indices` of the named features (positions in features()) into one tensor each,
  // [indices.size(), dims...]. Reuses a tensor of `batch` if it fits and is not shared; then it
  // allocates nothing. The result does not depend on the helpers.
  absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                      const GatherOptions& options, std::vector<Tensor>* batch) const;
  absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                      std::vector<Tensor>* batch) const {
    return Gather(indices, features, {}, batch);
  }

 private:
  Dataset();
  // Sets lengths_of_, and checks the lists that are in memory. Errors: those of CheckLengths.
  absl::Status SetLengths(const v1::DatasetSpec& spec, const Table& table);

  uint64_t records_ = 0;
  const std::unique_ptr<v1::DataFingerprint> fingerprint_;
  std::vector<FeatureType> features_;
  std::vector<int> nodes_;           // those of the graph, by feature
  std::vector<ColumnCheck> checks_;  // by feature: for numbers read later
  std::vector<int> lengths_of_;      // by feature: whose lists are as long; -1: it does not matter
  std::map<std::string, std::string> no_features_;  // by column: why it is not a feature
  std::shared_ptr<const RecordGraph> graph_;
  std::vector<std::string> warnings_;
  bool computes_records_ = false;
};

// Fills the vocabularies of all lookups that have none. It adapts them from the training records as
// Keras' StringLookup does, also for the validation set. The owner of the job calls it once, before
// it sends a dataset to another process, so that every process uses the same ids. Errors: those of
// Open; InvalidArgument if a lookup of the validation set has no counterpart in the training set.
absl::Status ResolveVocabularies(v1::DataSpec* data, const DataOptions& options);

// Errors: InvalidArgument that names a transform which would learn from the training records: a
// stream has no end, and other files would teach it something else.
absl::Status CheckLearnsNothing(const v1::DatasetSpec& spec);

// The records of an exactly-once epoch: position -> record. It is a permutation of blocks and of
// the records within a block, keyed by (seed, epoch); the identity if `shuffle` is false. It needs
// no memory.
class EpochOrder {
 public:
  // `block_size` 0 counts as 1. The last block may be shorter; the permutation may put it anywhere.
  EpochOrder(uint64_t records, uint64_t block_size, bool shuffle, uint64_t seed);
  // `position` < records.
  uint64_t Record(uint64_t epoch, uint64_t position) const;
  // Returns the records of positions [begin, end). Cheaper than one call for each.
  void Records(uint64_t epoch, uint64_t begin, uint64_t end, std::vector<uint64_t>* records) const;

  uint64_t records() const { return records_; }

 private:
  uint64_t records_;
  uint64_t block_size_;
  bool shuffle_;
  uint64_t seed_;
};

// A stream of batches, which a thread makes ahead. One consumer.
class BatchReader {
 public:
  struct Batch {
    std::vector<Tensor> tensors;  // in the order of Options::features
    int64_t records = 0;
  };
  struct Options {
    std::vector<int> features;  // positions in Dataset::features()
    uint32_t batch_size = 0;
    uint32_t prefetch = 2;  // batches that are made ahead; 0: none, and there is no thread
    uint64_t seed = 0;
    uint32_t worker_index = 0;
    // Independent: the batches that a reader with the same options has already returned. This
    // reader continues after them.
    uint64_t begin = 0;
    // The consumer makes batches up to this size itself. 100 KB take ten microseconds, and handing
    // them over from another thread and another core's cache costs as much. 0: always the thread.
    size_t inline_bytes = 128 << 10;
    // For training: random transforms are active.
    bool training = false;
    // Threads that make a batch whose records are read or computed: that of the reader and helpers.
    int threads = 1;
  };

  // visitation independent: an endless (or `repeat` epochs long) shuffled copy of the dataset,
  // keyed by (seed, worker_index), with a shuffle buffer as in tf.data. The order is shuffle,
  // batch, repeat: batches do not cross epochs. The last batch of an epoch may be short;
  // `drop_remainder` leaves it out.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Independent(
      std::shared_ptr<const Dataset> dataset, const v1::DatasetSpec& spec, const Options& options);

  // visitation exactly_once: the consumer reads batches by lease, positions [begin, end) of an
  // epoch. The order is keyed by the seed alone, so it is equal for all workers.
  static absl::StatusOr<std::unique_ptr<BatchReader>> Leased(std::shared_ptr<const Dataset> dataset,
                                                             const v1::DatasetSpec& spec,
                                                             const Options& options);

  virtual ~BatchReader() = default;

  // Independent: reads the next batch; OutOfRange at the end of data. Reuses the tensors of `batch`
  // that are not shared.
  virtual absl::Status Next(Batch* batch) = 0;

  // Leased: Announce names the leases that will be read, so that their batches are made ahead; Read
  // reads them in that order. A batch of a lease that was not announced is made when it is read.
  // Announced leases that are skipped are dropped.
  virtual void Announce(uint64_t epoch, uint64_t begin, uint64_t end) = 0;
  // Errors: InvalidArgument (a lease beyond the epoch's records, or empty).
  virtual absl::Status Read(uint64_t epoch, uint64_t begin, uint64_t end, Batch* batch) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_DATASET_H_
