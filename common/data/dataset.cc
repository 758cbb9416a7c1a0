#include "common/data/dataset.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "common/base/fnv1a.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/gather.h"
#include "common/data/lazy_columns.h"
#include "common/data/source_class.h"
#include "common/data/transform.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The columns of a table as a dataset: in memory, or computed when they are gathered.
class TableDataset : public Dataset {
 public:
  explicit TableDataset(Table table) : records_(table.records), lazy_(std::move(table.lazy)) {
    fingerprint_.set_records(records_);
    fingerprint_.mutable_files()->Assign(table.files.begin(), table.files.end());
    fingerprint_.set_source(table.source);
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
      columns_.emplace_back();
      columns_.back().node = column.node;
      if (!column.is_lazy()) columns_.back().memory.emplace(column, records_);
    }
  }

  uint64_t num_records() const override { return records_; }
  const v1::DataFingerprint& fingerprint() const override { return fingerprint_; }
  const std::vector<FeatureType>& features() const override { return features_; }
  const std::map<std::string, std::string>& no_features() const override { return no_feature_; }
  bool computes_records() const override { return lazy_ != nullptr; }
  absl::StatusOr<std::vector<int>> FindFeatures(std::span<const std::string> names) const override;
  using Dataset::Gather;
  absl::Status Gather(std::span<const uint64_t> indices, std::span<const int> features,
                      const GatherOptions& options, std::vector<Tensor>* batch) const override;

 private:
  struct FeatureColumn {
    std::optional<GatheredColumn> memory;
    int node = -1;  // in lazy_, if it is not in memory
  };

  const uint64_t records_;
  const std::shared_ptr<const LazyColumns> lazy_;
  v1::DataFingerprint fingerprint_;
  std::vector<FeatureType> features_;
  std::vector<FeatureColumn> columns_;             // by feature
  std::map<std::string, std::string> no_feature_;  // by column: why it is not a feature
};

absl::StatusOr<std::vector<int>> TableDataset::FindFeatures(
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

absl::Status TableDataset::Gather(std::span<const uint64_t> indices, std::span<const int> features,
                                  const GatherOptions& options, std::vector<Tensor>* batch) const {
  for (const uint64_t index : indices) {
    if (index >= records_) return OutOfRange("record {} of a dataset of {}", index, records_);
  }
  batch->resize(features.size());
  std::vector<LazyColumns::Output> lazy;
  for (size_t f = 0; f < features.size(); ++f) {
    if (features[f] < 0 || static_cast<size_t>(features[f]) >= features_.size()) {
      return InvalidArgument("feature {} of a dataset that has {}", features[f], features_.size());
    }
    const FeatureType& type = features_[static_cast<size_t>(features[f])];
    Tensor& tensor = (*batch)[f];
    Reshape(type, indices.size(), &tensor);
    const FeatureColumn& column = columns_[static_cast<size_t>(features[f])];
    if (column.memory) {
      column.memory->Gather(indices, tensor.raw());
    } else {
      lazy.push_back({column.node, tensor.raw()});
    }
  }
  return lazy.empty() ? absl::OkStatus() : lazy_->Gather(indices, lazy, options);
}

// The longest fingerprint of a source that is kept as it is.
constexpr size_t kLongestFingerprint = 64;

// Returns the columns of a source that reads records by index.
absl::StatusOr<Table> TableOf(const std::string& name, std::shared_ptr<const RecordSource> source,
                              const RowRange& range) {
  if (source == nullptr) return Internal("the source {} has opened nothing", name);
  COHORT_ASSIGN_OR_RETURN(const RowRange rows, ClampRange(range, source->num_records()));
  Table table;
  table.records = rows.take;
  const std::string fingerprint = PrintableLine(source->fingerprint());
  table.source = fmt::format("{} {}", name,
                             fingerprint.size() <= kLongestFingerprint
                                 ? fingerprint
                                 : fmt::format("{:016x}", Fnv1a(fingerprint)));
  table.lazy = std::make_shared<LazyColumns>(name, source, rows.skip);
  std::set<std::string> seen;
  for (size_t i = 0; i < source->columns().size(); ++i) {
    const FeatureType& type = source->columns()[i];
    COHORT_RETURN_IF_ERROR(Annotate(CheckColumnType(type.dtype, type.dims),
                                    fmt::format("source {}: column \"{}\"", name, type.name)));
    if (type.name.empty() || !seen.insert(type.name).second) {
      return InvalidArgument("source {}: column {} has no name of its own", name, i);
    }
    Column& column = table.columns.emplace_back();
    column.name = type.name;
    column.dtype = type.dtype;
    column.dims = type.dims;
    column.node = table.lazy->AddSource(i);
  }
  return table;
}

absl::StatusOr<Table> OpenSource(const v1::DatasetSpec& spec, const DataOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const SourceClass* source,
                          Sources().Find(spec.source_class().class_name()));
  const Config config(spec.source_class());
  if (source->check) COHORT_RETURN_IF_ERROR(source->check(config));
  const RowRange range = {spec.skip(), spec.take()};
  if (source->read_table) {
    return source->read_table(config, {options}, {range, UseOfColumns(spec)});
  }
  if (!source->open) return Internal("the source {} has no function `open`", source->schema.name);
  COHORT_ASSIGN_OR_RETURN(auto records, source->open(config, {options}));
  return TableOf(source->schema.name, std::move(records), range);
}

// Returns the records with all transforms applied. The transforms of `spec` get the arguments that
// they learn.
absl::StatusOr<Table> OpenTable(v1::DatasetSpec* spec, const DataOptions& options) {
  COHORT_RETURN_IF_ERROR(CompleteDataset(spec));
  COHORT_ASSIGN_OR_RETURN(Table table, OpenSource(*spec, options));
  for (v1::ColumnTransform& transform : *spec->mutable_transforms()) {
    const absl::Status applied = ApplyTransform(&transform, &table);
    // The job does not tell which host's file lacks the column.
    if (!table.files.empty()) {
      COHORT_RETURN_IF_ERROR(Annotate(applied, table.files[0].path()));
    }
    COHORT_RETURN_IF_ERROR(applied);
  }
  return table;
}

// Returns the class of a transform that has yet to learn arguments; null for others.
absl::StatusOr<const TransformClass*> AdaptingClass(const v1::ColumnTransform& transform) {
  if (transform.transform_class().class_name().empty()) return nullptr;  // the default
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config,
                          CompleteConfig(Transforms(), transform.transform_class()));
  COHORT_ASSIGN_OR_RETURN(const TransformClass* found, Transforms().Find(config.class_name()));
  return found->must_adapt && found->must_adapt(Config(config)) ? found : nullptr;
}

absl::StatusOr<bool> MustAdapt(const v1::DatasetSpec& spec) {
  for (const v1::ColumnTransform& transform : spec.transforms()) {
    COHORT_ASSIGN_OR_RETURN(const TransformClass* adapting, AdaptingClass(transform));
    if (adapting != nullptr) return true;
  }
  return false;
}

// Two transforms of one class with the same key are the same: the columns that they read and their
// output.
std::string KeyOf(const v1::ColumnTransform& transform) {
  std::string key = transform.column() + '\0' + transform.output();
  for (const std::string& column : transform.columns()) key += '\0' + column;
  return key;
}

}  // namespace

std::vector<std::string> LabelsOf(const v1::DatasetSpec& spec) {
  if (spec.label().empty()) return {spec.labels().begin(), spec.labels().end()};
  return {spec.label()};
}

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const v1::DatasetSpec& spec,
                                                             const DataOptions& options) {
  v1::DatasetSpec complete = spec;
  COHORT_ASSIGN_OR_RETURN(Table table, OpenTable(&complete, options));
  auto dataset = std::make_shared<const TableDataset>(std::move(table));
  const auto found = dataset->FindFeatures(LabelsOf(spec));
  if (!found.ok()) return Annotate(found.status(), "label");
  return dataset;
}

absl::Status ResolveVocabularies(v1::DataSpec* data, const DataOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const bool train_must, MustAdapt(data->train()));
  COHORT_ASSIGN_OR_RETURN(const bool validation_must, MustAdapt(data->validation()));
  if (!train_must && !validation_must) return absl::OkStatus();
  v1::DatasetSpec adapted = data->train();
  COHORT_RETURN_IF_ERROR(OpenTable(&adapted, options).status());
  std::map<std::string, v1::ClassConfig> learned;  // by class and key
  for (int i = 0; i < adapted.transforms_size(); ++i) {
    const v1::ClassConfig& config = adapted.transforms(i).transform_class();
    learned[config.class_name() + '\0' + KeyOf(adapted.transforms(i))] = config;
    v1::ColumnTransform* const transform = data->mutable_train()->mutable_transforms(i);
    COHORT_ASSIGN_OR_RETURN(const TransformClass* adapting, AdaptingClass(*transform));
    if (adapting != nullptr) *transform->mutable_transform_class() = config;
  }
  if (!validation_must) return absl::OkStatus();
  for (v1::ColumnTransform& transform : *data->mutable_validation()->mutable_transforms()) {
    COHORT_ASSIGN_OR_RETURN(const TransformClass* adapting, AdaptingClass(transform));
    if (adapting == nullptr) continue;
    const auto it = learned.find(adapting->schema.name + '\0' + KeyOf(transform));
    if (it == learned.end()) {
      return InvalidArgument(
          "the {} of \"{}\" in the validation set has nothing to learn from: the training set has "
          "no such transform",
          adapting->schema.name,
          transform.column().empty() ? transform.output() : transform.column());
    }
    *transform.mutable_transform_class() = it->second;
  }
  return absl::OkStatus();
}

}  // namespace cohort
