#include "chief/api/dataset_builder.h"

#include "chief/api/coordinator.h"
#include "common/base/status.h"

namespace cohort {

DatasetBuilder::DatasetBuilder() {
  spec_.set_shuffle(true);
  spec_.set_prefetch(2);
  spec_.set_block_size(1);
}

DatasetBuilder DatasetBuilder::Generator(std::string_view name, uint64_t records, uint64_t seed) {
  DatasetBuilder made;
  v1::GeneratorSource* source = made.spec_.mutable_generator();
  source->set_name(std::string(name));
  source->set_records(records);
  source->set_seed(seed);
  return made;
}

DatasetBuilder DatasetBuilder::Csv(std::string_view path, std::string_view delimiter) {
  DatasetBuilder made;
  v1::CsvSource* source = made.spec_.mutable_csv();
  source->set_path(std::string(path));
  source->set_delimiter(std::string(delimiter));
  return made;
}

DatasetBuilder DatasetBuilder::Idx(std::string_view images, std::string_view labels) {
  DatasetBuilder made;
  v1::IdxSource* source = made.spec_.mutable_idx();
  source->set_images(std::string(images));
  source->set_labels(std::string(labels));
  return made;
}

v1::ColumnTransform* DatasetBuilder::AddTransform(std::string_view column) {
  v1::ColumnTransform* transform = spec_.add_transforms();
  transform->set_column(std::string(column));
  return transform;
}

DatasetBuilder& DatasetBuilder::StringLookup(std::string_view column,
                                             const std::vector<std::string>& vocabulary,
                                             uint32_t oov_indices) {
  v1::ColumnTransform* transform = AddTransform(column);
  transform->set_lookup("string");
  transform->set_num_oov_indices(oov_indices);
  transform->mutable_vocabulary()->Add(vocabulary.begin(), vocabulary.end());
  return *this;
}

DatasetBuilder& DatasetBuilder::Equals(std::string_view column, std::string_view text) {
  AddTransform(column)->set_equals(std::string(text));
  return *this;
}

DatasetBuilder& DatasetBuilder::Rescale(std::string_view column, double scale, double offset) {
  v1::ColumnTransform* transform = AddTransform(column);
  transform->set_scale(scale);
  transform->set_offset(offset);
  return *this;
}

DatasetBuilder& DatasetBuilder::Stack(const std::vector<std::string>& columns,
                                      std::string_view output) {
  v1::ColumnTransform* transform = spec_.add_transforms();
  transform->mutable_columns()->Add(columns.begin(), columns.end());
  transform->set_output(std::string(output));
  return *this;
}

DatasetBuilder& DatasetBuilder::Skip(uint64_t records) {
  spec_.set_skip(records);
  return *this;
}

DatasetBuilder& DatasetBuilder::Take(uint64_t records) {
  spec_.set_take(records);
  return *this;
}

DatasetBuilder& DatasetBuilder::InOrder() {
  spec_.set_shuffle(false);
  return *this;
}

DatasetBuilder& DatasetBuilder::Shuffle(uint64_t buffer, uint64_t seed) {
  spec_.set_shuffle(true);
  spec_.set_shuffle_buffer(buffer);
  seed_ = seed;
  return *this;
}

DatasetBuilder& DatasetBuilder::Repeat(uint64_t epochs) {
  spec_.set_repeat(epochs);
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
  return coordinator->CreatePerWorkerDataset(spec_, options);
}

}  // namespace cohort
