#include "common/data/dataset.h"

#include <algorithm>
#include <map>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/gather.h"
#include "common/data/sources.h"
#include "common/data/transform.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// A dataset that keeps its records in memory.
class MemoryDataset : public Dataset {
 public:
  explicit MemoryDataset(Table table) : records_(table.records) {
    fingerprint_.set_records(records_);
    fingerprint_.mutable_files()->Assign(table.files.begin(), table.files.end());
    for (const Column& column : table.columns) {
      if (column.is_text()) {
        no_feature_[column.name] =
            column.not_a_number.empty()
                ? fmt::format("column \"{}\" holds text: give it a lookup or equals",
                              PrintableLine(column.name))
                : column.not_a_number;
        continue;
      }
      features_.push_back({column.name, column.dtype, column.dims});
      columns_.emplace_back(column, records_);
    }
  }

  uint64_t num_records() const override { return records_; }
  const v1::DataFingerprint& fingerprint() const override { return fingerprint_; }
  const std::vector<FeatureType>& features() const override { return features_; }
  const std::map<std::string, std::string>& no_features() const override { return no_feature_; }
  absl::StatusOr<std::vector<int>> FindFeatures(std::span<const std::string> names) const override;
  absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                      std::vector<Tensor>* batch) const override;

 private:
  const uint64_t records_;
  v1::DataFingerprint fingerprint_;
  std::vector<FeatureType> features_;
  std::vector<GatheredColumn> columns_;            // by feature
  std::map<std::string, std::string> no_feature_;  // by column: why it is not a feature
};

absl::StatusOr<std::vector<int>> MemoryDataset::FindFeatures(
    std::span<const std::string> names) const {
  std::vector<int> found;
  for (const std::string& name : names) {
    const auto it = std::find_if(features_.begin(), features_.end(),
                                 [&](const FeatureType& f) { return f.name == name; });
    if (it != features_.end()) {
      found.push_back(static_cast<int>(it - features_.begin()));
      continue;
    }
    if (const auto why = no_feature_.find(name); why != no_feature_.end()) {
      return InvalidArgument("{}", why->second);
    }
    std::string known;
    for (const FeatureType& f : features_)
      known += (known.empty() ? "" : ", ") + PrintableLine(f.name);
    return InvalidArgument("the dataset has no feature \"{}\"; it has {}", name, known);
  }
  return found;
}

// Gives `tensor` the shape of `rows` records of a feature. Reuses its memory if that is large
// enough and not shared.
void Reshape(const FeatureType& type, size_t rows, Tensor* tensor) {
  const bool mine = tensor->buffer() && tensor->buffer().unique() && tensor->byte_offset() == 0;
  const bool same = tensor->dtype() == type.dtype &&
                    tensor->dims().size() == type.dims.size() + 1 &&
                    tensor->dims()[0] == static_cast<int64_t>(rows) &&
                    std::equal(type.dims.begin(), type.dims.end(), tensor->dims().begin() + 1);
  if (mine && same) return;
  Dims dims = {static_cast<int64_t>(rows)};
  dims.insert(dims.end(), type.dims.begin(), type.dims.end());
  const size_t bytes = static_cast<size_t>(NumElements(dims)) * SizeOf(type.dtype);
  if (mine && tensor->buffer()->size() >= bytes) {
    *tensor = Tensor(type.dtype, std::move(dims), tensor->buffer());
  } else {
    *tensor = Tensor(type.dtype, std::move(dims));
  }
}

absl::Status MemoryDataset::Gather(std::span<const uint64_t> indices, std::span<const int> features,
                                   std::vector<Tensor>* batch) const {
  for (const uint64_t index : indices) {
    if (index >= records_) return OutOfRange("record {} of a dataset of {}", index, records_);
  }
  batch->resize(features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    if (features[f] < 0 || static_cast<size_t>(features[f]) >= features_.size()) {
      return InvalidArgument("feature {} of a dataset that has {}", features[f], features_.size());
    }
    const FeatureType& type = features_[static_cast<size_t>(features[f])];
    Tensor& tensor = (*batch)[f];
    Reshape(type, indices.size(), &tensor);
    columns_[static_cast<size_t>(features[f])].Gather(indices, tensor.raw());
  }
  return absl::OkStatus();
}

absl::StatusOr<Table> OpenSource(const v1::DatasetSpec& spec, const DataOptions& options) {
  const RowRange range = {spec.skip(), spec.take()};
  switch (spec.source_case()) {
    case v1::DatasetSpec::kGenerator:
      return OpenGenerator(spec.generator(), range);
    case v1::DatasetSpec::kIdx:
      return OpenIdx(spec.idx(), range, options);
    case v1::DatasetSpec::kCsv:
      return OpenCsv(spec.csv(), UseOfColumns(spec), range, options);
    case v1::DatasetSpec::SOURCE_NOT_SET:
      break;
  }
  return InvalidArgument("a dataset needs a source: generator, idx or csv");
}

// Returns the records with all transforms applied. `vocabularies` receives the words of each
// lookup.
absl::StatusOr<Table> OpenTable(const v1::DatasetSpec& spec, const DataOptions& options,
                                std::vector<std::vector<std::string>>* vocabularies) {
  COHORT_ASSIGN_OR_RETURN(Table table, OpenSource(spec, options));
  for (const v1::ColumnTransform& transform : spec.transforms()) {
    vocabularies->emplace_back();
    const absl::Status applied = ApplyTransform(transform, &table, &vocabularies->back());
    // The job does not tell which host's file lacks the column.
    if (!table.files.empty()) {
      COHORT_RETURN_IF_ERROR(Annotate(applied, table.files[0].path()));
    }
    COHORT_RETURN_IF_ERROR(applied);
  }
  return table;
}

bool NeedsVocabulary(const v1::ColumnTransform& transform) {
  return !transform.lookup().empty() && transform.vocabulary().empty();
}

// Two lookups with the same key are the same lookup: the columns that they read and their output.
std::string KeyOf(const v1::ColumnTransform& transform) {
  std::string key = transform.column() + '\0' + transform.output();
  for (const std::string& column : transform.columns()) key += '\0' + column;
  return key;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const v1::DatasetSpec& spec,
                                                             const DataOptions& options) {
  std::vector<std::vector<std::string>> vocabularies;
  COHORT_ASSIGN_OR_RETURN(Table table, OpenTable(spec, options, &vocabularies));
  auto dataset = std::make_shared<const MemoryDataset>(std::move(table));
  if (!spec.label().empty()) {
    const std::string label = spec.label();
    const auto found = dataset->FindFeatures({&label, 1});
    if (!found.ok()) return Annotate(found.status(), "label");
  }
  return dataset;
}

absl::Status ResolveVocabularies(v1::DataSpec* data, const DataOptions& options) {
  const auto needs = [](const v1::DatasetSpec& spec) {
    return std::any_of(spec.transforms().begin(), spec.transforms().end(), NeedsVocabulary);
  };
  if (!needs(data->train()) && !needs(data->validation())) return absl::OkStatus();
  std::vector<std::vector<std::string>> vocabularies;
  COHORT_RETURN_IF_ERROR(OpenTable(data->train(), options, &vocabularies).status());
  std::map<std::string, const std::vector<std::string>*> by_key;
  for (int i = 0; i < data->train().transforms_size(); ++i) {
    v1::ColumnTransform* transform = data->mutable_train()->mutable_transforms(i);
    if (transform->lookup().empty()) continue;
    const auto& vocabulary = vocabularies[static_cast<size_t>(i)];
    by_key[KeyOf(*transform)] = &vocabulary;
    transform->mutable_vocabulary()->Assign(vocabulary.begin(), vocabulary.end());
  }
  if (!needs(data->validation())) return absl::OkStatus();
  for (v1::ColumnTransform& transform : *data->mutable_validation()->mutable_transforms()) {
    if (!NeedsVocabulary(transform)) continue;
    const auto it = by_key.find(KeyOf(transform));
    if (it == by_key.end()) {
      return InvalidArgument(
          "the validation set's lookup of \"{}\" has no vocabulary, and the training set has no "
          "such "
          "lookup to learn it from",
          transform.column().empty() ? transform.output() : transform.column());
    }
    transform.mutable_vocabulary()->Assign(it->second->begin(), it->second->end());
  }
  return absl::OkStatus();
}

}  // namespace cohort
