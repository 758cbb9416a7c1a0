#include "common/data/dataset.h"

#include <absl/container/inlined_vector.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "common/base/fnv1a.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/image_targets.h"
#include "common/data/memory_source.h"
#include "common/data/record_graph.h"
#include "common/data/row_filter.h"
#include "common/data/source_class.h"
#include "common/data/transform.h"
#include "common/data/word_columns.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

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

// The longest fingerprint of a source that is kept as it is.
constexpr size_t kLongestFingerprint = 64;

// Returns the columns of a source that reads records by index.
absl::StatusOr<Table> TableOf(const std::string& name, std::shared_ptr<const RecordSource> source,
                              const RowRange& range, const ColumnUse& use) {
  COHORT_ASSIGN_OR_RETURN(const RowRange rows, ClampRange(range, source->num_records()));
  Table table;
  table.records = rows.take;
  const std::string fingerprint = PrintableLine(source->fingerprint());
  table.source = fmt::format("{} {}", name,
                             fingerprint.size() <= kLongestFingerprint
                                 ? fingerprint
                                 : fmt::format("{:016x}", Fnv1a(fingerprint)));
  table.warnings = source->warnings();
  COHORT_RETURN_IF_ERROR(
      Annotate(AddWordColumns(*source, rows, use, &table), fmt::format("source {}", name)));
  // Transforms may put columns into memory, beside those that are read.
  table.memory = std::make_shared<MemorySource>(rows.take, source, rows.skip);
  table.place = [source, skip = rows.skip](uint64_t record, std::string_view column) {
    return source->Place(skip + record, column);
  };
  table.graph = std::make_shared<RecordGraph>(name, table.memory, rows.skip);
  std::set<std::string> seen;
  for (const Column& words : table.columns) seen.insert(words.name);
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
    column.node = table.graph->AddSource(i);
  }
  return table;
}

// An open source: it reads records by index, or is a table in memory.
struct OpenedSource {
  std::string name;
  std::shared_ptr<const RecordSource> records;
  Table table;
};

absl::StatusOr<OpenedSource> OpenSource(const v1::DatasetSpec& spec, const DataOptions& options,
                                        const TableRequest& request) {
  COHORT_ASSIGN_OR_RETURN(const SourceClass* source,
                          Sources().Find(spec.source_class().class_name()));
  const Config config(spec.source_class());
  if (source->check) COHORT_RETURN_IF_ERROR(source->check(config));
  OpenedSource opened{.name = source->schema.name};
  if (source->read_table) {
    COHORT_ASSIGN_OR_RETURN(opened.table, source->read_table(config, {options}, request));
    if (opened.table.place) return opened;
    opened.table.place = [name = opened.name, skip = request.range.skip](uint64_t record,
                                                                         std::string_view) {
      return fmt::format("source {}: record {}", name, skip + record);
    };
    return opened;
  }
  if (!source->open) return Internal("the source {} has no function `open`", opened.name);
  COHORT_ASSIGN_OR_RETURN(opened.records, source->open(config, {options}));
  if (opened.records == nullptr) return Internal("the source {} has opened nothing", opened.name);
  return opened;
}

// Returns the columns of a source. `range` is that of a source which reads records by index.
absl::StatusOr<Table> TableOf(const OpenedSource& opened, const RowRange& range,
                              const ColumnUse& use) {
  if (opened.records != nullptr) return TableOf(opened.name, opened.records, range, use);
  Table table = opened.table;
  table.memory = std::make_shared<MemorySource>(table.records);
  table.graph = std::make_shared<RecordGraph>(opened.name, table.memory, /*first=*/0);
  return table;
}

// Leaves out the records that do not pass the filter, and those outside of the range of the others.
absl::Status Filter(const RowFilter& filter, const v1::DatasetSpec& spec, OpenedSource* opened) {
  COHORT_ASSIGN_OR_RETURN(Table all, TableOf(*opened, {}, filter.use()));
  COHORT_ASSIGN_OR_RETURN(TableVector<uint64_t> passing, filter.Passing(spec, std::move(all)));
  COHORT_ASSIGN_OR_RETURN(const RowRange range,
                          ClampRange({spec.skip(), spec.take()}, passing.size()));
  std::memmove(passing.data(), passing.data() + range.skip, range.take * sizeof(uint64_t));
  passing.resize(range.take);
  auto kept = std::make_shared<const TableVector<uint64_t>>(std::move(passing));
  if (opened->records != nullptr) {
    opened->records = KeepRecords(std::move(kept), std::move(opened->records));
  } else {
    KeepRecords(kept, &opened->table);
  }
  return absl::OkStatus();
}

// Returns the records that are used, without transforms.
absl::StatusOr<Table> OpenRecords(const v1::DatasetSpec& spec, const DataOptions& options) {
  TableRequest request = {{spec.skip(), spec.take()}, UseOfColumns(spec)};
  if (spec.filter().empty()) {
    COHORT_ASSIGN_OR_RETURN(const OpenedSource opened, OpenSource(spec, options, request));
    return TableOf(opened, request.range, request.use);
  }
  COHORT_ASSIGN_OR_RETURN(const RowFilter filter, RowFilter::Create(spec));
  const ColumnUse use = request.use;
  request.range = {};
  request.use.text.merge(filter.use().text);
  request.use.numbers.merge(filter.use().numbers);
  COHORT_ASSIGN_OR_RETURN(OpenedSource opened, OpenSource(spec, options, request));
  COHORT_RETURN_IF_ERROR(Filter(filter, spec, &opened));
  return TableOf(opened, {}, use);
}

// An Input of a model that names no column reads the only one that is no label.
void FindInputs(const Table& table, v1::DatasetSpec* spec) {
  const std::vector<std::string> targets = TargetsOf(*spec);
  std::vector<std::string> others;
  for (const Column& column : table.columns) {
    if (std::ranges::count(targets, column.name) == 0) others.push_back(column.name);
  }
  std::set<std::string> made;
  for (v1::ColumnTransform& transform : *spec->mutable_transforms()) {
    const bool exists = made.contains(transform.column()) ||
                        std::ranges::any_of(table.columns, [&](const Column& c) {
                          return c.name == transform.column();
                        });
    if (transform.of_input() && !exists && others.size() == 1) transform.set_column(others[0]);
    made.insert(OutputOf(transform));
  }
}

// Returns the records with all transforms applied. The transforms of `spec` get the arguments that
// they learn.
absl::StatusOr<Table> OpenTable(v1::DatasetSpec* spec, const DataOptions& options) {
  for (v1::ColumnTransform& transform : *spec->mutable_transforms()) {
    COHORT_RETURN_IF_ERROR(ReadVocabulary(options, transform.mutable_transform_class()));
  }
  COHORT_RETURN_IF_ERROR(CompleteDataset(spec));
  COHORT_ASSIGN_OR_RETURN(Table table, OpenRecords(*spec, options));
  FindInputs(table, spec);
  for (v1::ColumnTransform& transform : *spec->mutable_transforms()) {
    const absl::Status applied = ApplyTransform(&transform, &table);
    // The job does not tell which host's file lacks the column.
    if (!table.files.empty()) {
      COHORT_RETURN_IF_ERROR(Annotate(applied, table.files[0].path()));
    }
    COHORT_RETURN_IF_ERROR(applied);
  }
  COHORT_RETURN_IF_ERROR(CheckImageTargets(*spec, table));
  return table;
}

// Returns the class of a transform that has yet to learn arguments; null for others.
absl::StatusOr<const TransformClass*> AdaptingClass(const v1::ColumnTransform& transform) {
  if (transform.transform_class().class_name().empty()) return nullptr;  // the default
  if (HasVocabularyFile(transform.transform_class())) {
    return Transforms().Find(transform.transform_class().class_name());
  }
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

std::vector<std::string> TargetsOf(const v1::DatasetSpec& spec) {
  std::vector<std::string> targets = LabelsOf(spec);
  for (const std::string& weight : spec.sample_weight()) {
    if (!weight.empty()) targets.push_back(weight);
  }
  return targets;
}

bool IsUnweighted(const v1::DatasetSpec& spec) {
  const auto& columns = spec.sample_weight();
  return !columns.empty() && std::all_of(columns.begin(), columns.end(),
                                         [](const std::string& column) { return column.empty(); });
}

absl::StatusOr<std::shared_ptr<const Dataset>> Dataset::Open(const v1::DatasetSpec& spec,
                                                             const DataOptions& options) {
  v1::DatasetSpec complete = spec;
  COHORT_ASSIGN_OR_RETURN(Table table, OpenTable(&complete, options));
  std::shared_ptr<Dataset> dataset(new Dataset);
  dataset->records_ = table.records;
  dataset->fingerprint_->set_records(table.records);
  dataset->fingerprint_->mutable_files()->Assign(table.files.begin(), table.files.end());
  dataset->fingerprint_->set_source(table.source);
  const std::vector<std::string> targets = TargetsOf(spec);
  for (Column& column : table.columns) {
    if (column.is_text()) {
      dataset->no_features_[column.name] = column.not_a_number.empty()
                                               ? fmt::format(
                                                     "column \"{}\" holds text: give it a lookup "
                                                     "or equals, or Hashing if it has ids",
                                                     PrintableLine(column.name))
                                               : column.not_a_number;
      continue;
    }
    const v1::ColumnRead* const read = FindRead(spec, table, column.name);
    ColumnCheck check =
        CheckOf(read, std::find(targets.begin(), targets.end(), column.name) != targets.end());
    if (column.is_in_memory()) {
      COHORT_RETURN_IF_ERROR(ReadColumnAs(read, check, table, &column));
      check = {};
    }
    dataset->features_.push_back({column.name, column.dtype, column.dims});
    dataset->nodes_.push_back(table.NodeOf(column));
    dataset->checks_.push_back(std::move(check));
  }
  COHORT_RETURN_IF_ERROR(dataset->SetLengths(spec, table));
  dataset->warnings_ = std::move(table.warnings);
  dataset->computes_records_ = table.memory->is_beside_another() || table.graph->has_transforms();
  dataset->graph_ = table.graph;
  const auto labels = dataset->FindFeatures(LabelsOf(spec));
  if (!labels.ok()) return Annotate(labels.status(), "label");
  const auto found = dataset->FindFeatures(targets);
  if (!found.ok()) return Annotate(found.status(), "sample_weight");
  return dataset;
}

absl::Status Dataset::SetLengths(const v1::DatasetSpec& spec, const Table& table) {
  lengths_of_.assign(features_.size(), -1);
  for (const v1::ColumnRead& read : spec.reads()) {
    const auto weights = std::ranges::find(table.columns, read.column(), &Column::name);
    const auto ids = std::ranges::find(table.columns, read.lengths_of(), &Column::name);
    if (weights == table.columns.end() || ids == table.columns.end()) continue;
    if (weights->is_text() || ids->is_text()) continue;
    if (!weights->is_in_memory() || !ids->is_in_memory()) {
      const auto at = std::ranges::find(features_, read.column(), &FeatureType::name);
      const auto of = std::ranges::find(features_, read.lengths_of(), &FeatureType::name);
      lengths_of_[static_cast<size_t>(at - features_.begin())] =
          static_cast<int>(of - features_.begin());
      continue;
    }
    COHORT_RETURN_IF_ERROR(CheckLengths(
        {ids->name, ids->stored, ids->dims}, ids->values->data(),
        {weights->name, weights->stored, weights->dims}, weights->values->data(), table.records,
        [&](size_t record) { return table.PlaceOf(record, read.column()); }));
  }
  return absl::OkStatus();
}

Dataset::Dataset() : fingerprint_(std::make_unique<v1::DataFingerprint>()) {}

Dataset::~Dataset() = default;

absl::StatusOr<std::vector<int>> Dataset::FindFeatures(std::span<const std::string> names) const {
  std::vector<int> found;
  for (const std::string& name : names) {
    const auto it = std::find_if(features_.begin(), features_.end(),
                                 [&](const FeatureType& f) { return f.name == name; });
    if (it != features_.end()) {
      found.push_back(static_cast<int>(it - features_.begin()));
      continue;
    }
    if (const auto why = no_features_.find(name); why != no_features_.end()) {
      return InvalidArgument("{}", why->second);
    }
    return InvalidArgument(
        "the dataset has no feature \"{}\"; it has {}", name,
        absl::StrJoin(features_, ", ", [](std::string* out, const FeatureType& feature) {
          out->append(PrintableLine(feature.name));
        }));
  }
  return found;
}

absl::Status Dataset::Gather(std::span<const uint64_t> indices, std::span<const int> features,
                             const GatherOptions& options, std::vector<Tensor>* batch) const {
  for (const uint64_t index : indices) {
    if (index >= records_) return OutOfRange("record {} of a dataset of {}", index, records_);
  }
  batch->resize(features.size());
  absl::InlinedVector<RecordGraph::Output, 8> outputs;
  for (size_t f = 0; f < features.size(); ++f) {
    if (features[f] < 0 || static_cast<size_t>(features[f]) >= features_.size()) {
      return InvalidArgument("feature {} of a dataset that has {}", features[f], features_.size());
    }
    const auto feature = static_cast<size_t>(features[f]);
    Reshape(features_[feature], indices.size(), &(*batch)[f]);
    outputs.push_back({nodes_[feature], (*batch)[f].raw()});
  }
  COHORT_RETURN_IF_ERROR(graph_->Gather(indices, outputs, options));
  for (size_t f = 0; f < features.size(); ++f) {
    const auto feature = static_cast<size_t>(features[f]);
    const FeatureType& type = features_[feature];
    if (!checks_[feature].checks(type.dtype)) continue;
    COHORT_RETURN_IF_ERROR(
        CheckNumbers(checks_[feature], type, outputs[f].values, indices.size(),
                     [&](size_t i) { return graph_->Place(indices[i], type.name); }));
  }
  for (size_t f = 0; f < features.size(); ++f) {
    const int of = lengths_of_[static_cast<size_t>(features[f])];
    const auto ids = std::ranges::find(features, of);
    if (of < 0 || ids == features.end()) continue;
    const FeatureType& type = features_[static_cast<size_t>(features[f])];
    COHORT_RETURN_IF_ERROR(CheckLengths(
        features_[static_cast<size_t>(of)],
        outputs[static_cast<size_t>(ids - features.begin())].values, type, outputs[f].values,
        indices.size(), [&](size_t i) { return graph_->Place(indices[i], type.name); }));
  }
  return absl::OkStatus();
}

absl::Status CheckLearnsNothing(const v1::DatasetSpec& spec) {
  for (const v1::ColumnTransform& transform : spec.transforms()) {
    if (HasVocabularyFile(transform.transform_class())) continue;
    COHORT_ASSIGN_OR_RETURN(const TransformClass* adapting, AdaptingClass(transform));
    if (adapting == nullptr) continue;
    return InvalidArgument(
        "the {} of \"{}\" would learn from the training records, and a stream has no end: give it "
        "its arguments, such as a vocabulary, or hash the words",
        adapting->schema.name,
        transform.column().empty() ? transform.output() : transform.column());
  }
  return absl::OkStatus();
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
