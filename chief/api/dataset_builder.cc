#include "chief/api/dataset_builder.h"

#include <utility>

#include "chief/api/coordinator.h"
#include "common/base/status.h"
#include "common/schema/class_registry.h"
#include "proto/job.pb.h"

namespace cohort {

DatasetBuilder::DatasetBuilder(const DatasetBuilder& other)
    : spec_(std::make_unique<v1::DatasetSpec>(*other.spec_)),
      seed_(other.seed_),
      batch_size_(other.batch_size_),
      columns_(other.columns_) {}
DatasetBuilder::DatasetBuilder(DatasetBuilder&& other) noexcept = default;
DatasetBuilder& DatasetBuilder::operator=(DatasetBuilder other) noexcept {
  std::swap(spec_, other.spec_);
  std::swap(seed_, other.seed_);
  std::swap(batch_size_, other.batch_size_);
  std::swap(columns_, other.columns_);
  return *this;
}
DatasetBuilder::~DatasetBuilder() = default;

DatasetBuilder::DatasetBuilder(v1::ClassConfig source)
    : spec_(std::make_unique<v1::DatasetSpec>()) {
  *spec_->mutable_source_class() = std::move(source);
  spec_->set_shuffle(true);
  spec_->set_prefetch(2);
  spec_->set_block_size(1);
}

DatasetBuilder DatasetBuilder::Generator(std::string_view name, uint64_t records, uint64_t seed) {
  return DatasetBuilder(ClassOf("generator", {{"name", ConfigOf(name)},
                                              {"records", ConfigOf(static_cast<int64_t>(records))},
                                              {"seed", ConfigOf(static_cast<int64_t>(seed))}}));
}

DatasetBuilder DatasetBuilder::Csv(std::string_view path, std::string_view delimiter) {
  return DatasetBuilder(
      ClassOf("csv", {{"path", ConfigOf(path)}, {"delimiter", ConfigOf(delimiter)}}));
}

DatasetBuilder DatasetBuilder::Idx(std::string_view images, std::string_view labels) {
  return DatasetBuilder(
      ClassOf("idx", {{"images", ConfigOf(images)}, {"labels", ConfigOf(labels)}}));
}

DatasetBuilder DatasetBuilder::Source(const KerasClass& source) {
  return DatasetBuilder(source.config());
}

DatasetBuilder& DatasetBuilder::StringLookup(std::string_view column,
                                             const std::vector<std::string>& vocabulary,
                                             uint32_t oov_indices) {
  Transform(column, "StringLookup");
  auto& config =
      *spec_->mutable_transforms()->rbegin()->mutable_transform_class()->mutable_config();
  config["vocabulary"] = ConfigOf(vocabulary);
  config["num_oov_indices"] = ConfigOf(int64_t{oov_indices});
  return *this;
}

DatasetBuilder& DatasetBuilder::Equals(std::string_view column, std::string_view text) {
  return Transform(column, {"Equals", {{"value", std::string(text)}}});
}

DatasetBuilder& DatasetBuilder::Rescale(std::string_view column, double scale, double offset) {
  return Transform(column, {"Rescaling", {{"scale", scale}, {"offset", offset}}});
}

DatasetBuilder& DatasetBuilder::Stack(const std::vector<std::string>& columns,
                                      std::string_view output) {
  return Transform(columns, output, "Stack");
}

DatasetBuilder& DatasetBuilder::Transform(std::string_view column, const KerasClass& transform) {
  v1::ColumnTransform* const added = spec_->add_transforms();
  added->set_column(std::string(column));
  *added->mutable_transform_class() = transform.config();
  return *this;
}

DatasetBuilder& DatasetBuilder::Transform(const std::vector<std::string>& columns,
                                          std::string_view output, const KerasClass& transform) {
  v1::ColumnTransform* const added = spec_->add_transforms();
  added->mutable_columns()->Add(columns.begin(), columns.end());
  added->set_output(std::string(output));
  *added->mutable_transform_class() = transform.config();
  return *this;
}

DatasetBuilder& DatasetBuilder::Skip(uint64_t records) {
  spec_->set_skip(records);
  return *this;
}

DatasetBuilder& DatasetBuilder::Take(uint64_t records) {
  spec_->set_take(records);
  return *this;
}

DatasetBuilder& DatasetBuilder::InOrder() {
  spec_->set_shuffle(false);
  return *this;
}

DatasetBuilder& DatasetBuilder::Shuffle(uint64_t buffer, uint64_t seed) {
  spec_->set_shuffle(true);
  spec_->set_shuffle_buffer(buffer);
  seed_ = seed;
  return *this;
}

DatasetBuilder& DatasetBuilder::Repeat(uint64_t epochs) {
  spec_->set_repeat(epochs);
  return *this;
}

DatasetBuilder& DatasetBuilder::Batch(uint32_t batch_size,
                                      const std::vector<std::string>& columns) {
  batch_size_ = batch_size;
  columns_ = columns;
  return *this;
}

absl::StatusOr<PerWorkerDataset> DatasetBuilder::CreateOn(ClusterCoordinator* coordinator) const {
  if (batch_size_ == 0 || columns_.empty()) {
    return InvalidArgument("the dataset has no batches: call Batch with a size and columns");
  }
  DatasetOptions options;
  options.batch_size = batch_size_;
  options.features = columns_;
  options.seed = seed_;
  return coordinator->CreatePerWorkerDataset(*spec_, options);
}

}  // namespace cohort
