#ifndef COHORT_CHIEF_API_DATASET_BUILDER_H_
#define COHORT_CHIEF_API_DATASET_BUILDER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/keras_class.h"
#include "chief/core/closure_spec.h"

namespace cohort::v1 {
class DatasetSpec;
}

namespace cohort {

class ClusterCoordinator;

// A dataset: a source, transforms of its columns, and batches. Its records are shuffled and
// repeated without end, as in the tutorial of TensorFlow, unless Shuffle or Repeat changes that.
//
//   COHORT_ASSIGN_OR_RETURN(
//       const PerWorkerDataset dataset,
//       DatasetBuilder::Csv("adult/adult.data")
//           .StringLookup("workclass")
//           .Equals("income", ">50K")
//           .Batch(32, {"workclass", "income"})
//           .CreateOn(coordinator.get()));
//
// Paths are relative to the data directory of each worker. A column that a transform writes
// replaces the column of that name.
class DatasetBuilder {
 public:
  DatasetBuilder(const DatasetBuilder& other);
  DatasetBuilder(DatasetBuilder&& other) noexcept;
  DatasetBuilder& operator=(DatasetBuilder other) noexcept;
  ~DatasetBuilder();

  // Records that are computed from (seed, index): "recommender" has the columns `features` (three
  // words) and `label` ("yes", "no").
  static DatasetBuilder Generator(std::string_view name, uint64_t records, uint64_t seed = 0);
  // Columns: those of the first line.
  static DatasetBuilder Csv(std::string_view path, std::string_view delimiter = ",");
  // Columns: `image` and, if `labels` is not empty, `label`.
  static DatasetBuilder Idx(std::string_view images, std::string_view labels);
  // Any source by its name: those of docs/job_file.md, and those that the workers have registered.
  // The workers check the arguments.
  static DatasetBuilder Source(const KerasClass& source);

  // Words to ids (int64) as Keras' StringLookup: the ids after `oov_indices` belong to the
  // vocabulary. An empty vocabulary is adapted from the records.
  DatasetBuilder& StringLookup(std::string_view column,
                               const std::vector<std::string>& vocabulary = {},
                               uint32_t oov_indices = 1);
  // 1 if the word equals `text`, else 0; float32.
  DatasetBuilder& Equals(std::string_view column, std::string_view text);
  // x * scale + offset, as Keras' Rescaling; float32.
  DatasetBuilder& Rescale(std::string_view column, double scale, double offset = 0);
  // Several columns as one of shape [n].
  DatasetBuilder& Stack(const std::vector<std::string>& columns, std::string_view output);
  // Any transform by its name; see Source.
  DatasetBuilder& Transform(std::string_view column, const KerasClass& transform);
  DatasetBuilder& Transform(const std::vector<std::string>& columns, std::string_view output,
                            const KerasClass& transform);

  DatasetBuilder& Skip(uint64_t records);
  DatasetBuilder& Take(uint64_t records);
  // Keeps the order of the source.
  DatasetBuilder& InOrder();
  // Shuffles within a buffer of this size instead of all records.
  DatasetBuilder& Shuffle(uint64_t buffer, uint64_t seed = 0);
  // Ends after this number of epochs.
  DatasetBuilder& Repeat(uint64_t epochs);
  // The columns that feed the step's arguments, by position.
  DatasetBuilder& Batch(uint32_t batch_size, const std::vector<std::string>& columns);

  const v1::DatasetSpec& spec() const { return *spec_; }
  uint64_t seed() const { return seed_; }
  uint32_t batch_size() const { return batch_size_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Errors: those of ClusterCoordinator::CreatePerWorkerDataset; InvalidArgument without Batch.
  absl::StatusOr<PerWorkerDataset> CreateOn(ClusterCoordinator* coordinator) const;

 private:
  explicit DatasetBuilder(v1::ClassConfig source);

  std::unique_ptr<v1::DatasetSpec> spec_;
  uint64_t seed_ = 0;
  uint32_t batch_size_ = 0;
  std::vector<std::string> columns_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_DATASET_BUILDER_H_
