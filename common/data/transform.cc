#include "common/data/transform.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/data/lazy_columns.h"
#include "common/data/numbers.h"
#include "common/data/source_class.h"
#include "common/data/stack_columns.h"
#include "common/data/transform_class.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

using Transform = v1::ColumnTransform;

std::vector<std::string> InputsOf(const Transform& transform) {
  if (!transform.column().empty()) return {transform.column()};
  return {transform.columns().begin(), transform.columns().end()};
}

std::string OutputOf(const Transform& transform) {
  if (!transform.output().empty()) return transform.output();
  return transform.column();
}

std::string NameOf(const Transform& transform) {
  return fmt::format("transform of \"{}\"", OutputOf(transform));
}

absl::Status Complete(Transform* transform) {
  if (transform->column().empty() == transform->columns().empty()) {
    return InvalidArgument("give either `column` or `columns`");
  }
  if (OutputOf(*transform).empty()) return InvalidArgument("`columns` needs an `output`: its name");
  if (!transform->dtype().empty() && !DTypeFromName(transform->dtype()).has_value()) {
    return InvalidArgument("dtype: \"{}\" is unknown", transform->dtype());
  }
  v1::ClassConfig* const config = transform->mutable_transform_class();
  if (config->class_name().empty()) config->set_class_name(DefaultClass(*transform));
  COHORT_ASSIGN_OR_RETURN(*config, CompleteConfig(Transforms(), *config));
  return absl::OkStatus();
}

// Returns the inputs of the transform.
absl::StatusOr<std::vector<Column>> FindColumns(const Transform& transform, const Table& table) {
  std::vector<Column> inputs;
  for (const std::string& name : InputsOf(transform)) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                    [&](const Column& c) { return c.name == name; });
    if (found == table.columns.end()) {
      std::string known;
      for (const Column& c : table.columns) known += (known.empty() ? "" : ", ") + c.name;
      return InvalidArgument("there is no column \"{}\"; there are {}", name, known);
    }
    if (!found->not_a_number.empty()) return InvalidArgument("{}", found->not_a_number);
    inputs.push_back(*found);
  }
  return inputs;
}

// Transforms columns in memory at once.
absl::StatusOr<Column> TransformMemory(const TransformClass& transform, uint64_t records,
                                       std::vector<Column> inputs, v1::ClassConfig* config) {
  if (inputs.size() > 1 && !transform.takes_columns) {
    COHORT_ASSIGN_OR_RETURN(Column stacked, StackColumns(inputs, records));
    inputs.assign(1, std::move(stacked));
  }
  if (transform.must_adapt && transform.must_adapt(Config(*config))) {
    COHORT_RETURN_IF_ERROR(transform.adapt(inputs[0], config));
  }
  return transform.transform_columns(Config(*config), records, inputs);
}

// Adds nodes that transform each record when it is gathered.
class LazyTransform {
 public:
  LazyTransform(const Transform& transform, const TransformClass& its_class, Table* table)
      : transform_(transform), class_(its_class), table_(table) {}

  absl::StatusOr<Column> Add(const std::vector<Column>& inputs) {
    if (!class_.open) {
      return InvalidArgument("{} needs words, and the source has numbers", class_.schema.name);
    }
    if (table_->lazy == nullptr) table_->lazy = std::make_shared<LazyColumns>();
    for (const Column& column : inputs) COHORT_RETURN_IF_ERROR(AddInput(column));
    if (nodes_.size() > 1 && !class_.takes_columns) {
      COHORT_RETURN_IF_ERROR(AddNode(StackRecords(types_)));
    }
    COHORT_RETURN_IF_ERROR(AddNode(class_.open(Config(transform_.transform_class()), types_)));
    const std::string& dtype = transform_.dtype();
    if (!dtype.empty() && *DTypeFromName(dtype) != types_[0].dtype) {
      v1::ClassConfig cast;
      (*cast.mutable_config())["dtype"] = ConfigOf(std::string_view(dtype));
      COHORT_ASSIGN_OR_RETURN(const TransformClass* cast_class, Transforms().Find("Cast"));
      COHORT_RETURN_IF_ERROR(AddNode(cast_class->open(Config(cast), types_)));
    }
    Column column;
    column.node = nodes_[0];
    column.dtype = types_[0].dtype;
    column.dims = types_[0].dims;
    return column;
  }

 private:
  absl::Status AddInput(const Column& column) {
    if (column.is_lazy()) {
      nodes_.push_back(column.node);
    } else {
      COHORT_ASSIGN_OR_RETURN(const Column numbers, NumbersOf(column));
      nodes_.push_back(table_->lazy->AddMemory(numbers, table_->records));
    }
    types_.push_back(table_->lazy->type(nodes_.back()));
    types_.back().name = column.name;
    return absl::OkStatus();
  }

  // Replaces the inputs by the transform of them.
  absl::Status AddNode(absl::StatusOr<RecordTransform> transform) {
    COHORT_RETURN_IF_ERROR(transform.status());
    COHORT_RETURN_IF_ERROR(CheckColumnType(transform->dtype, transform->dims));
    if (!transform->apply) return Internal("{} has no function `apply`", class_.schema.name);
    types_.assign(1, {types_[0].name, transform->dtype, transform->dims});
    nodes_.assign(1, table_->lazy->AddTransform(NameOf(transform_), *std::move(transform), nodes_));
    return absl::OkStatus();
  }

  const Transform& transform_;
  const TransformClass& class_;
  Table* const table_;
  std::vector<int> nodes_;          // the inputs of the next transform
  std::vector<FeatureType> types_;  // those of nodes_
};

absl::Status Apply(Transform* transform, Table* table) {
  COHORT_ASSIGN_OR_RETURN(const TransformClass* its_class,
                          Transforms().Find(transform->transform_class().class_name()));
  COHORT_ASSIGN_OR_RETURN(std::vector<Column> inputs, FindColumns(*transform, *table));
  const bool in_memory =
      its_class->transform_columns &&
      std::none_of(inputs.begin(), inputs.end(), [](const Column& c) { return c.is_lazy(); });
  COHORT_ASSIGN_OR_RETURN(Column column,
                          in_memory ? TransformMemory(*its_class, table->records, std::move(inputs),
                                                      transform->mutable_transform_class())
                                    : LazyTransform(*transform, *its_class, table).Add(inputs));
  column.name = OutputOf(*transform);
  if (in_memory && !transform->dtype().empty()) column.dtype = *DTypeFromName(transform->dtype());
  const auto same = std::find_if(table->columns.begin(), table->columns.end(),
                                 [&](const Column& c) { return c.name == column.name; });
  if (same == table->columns.end()) {
    table->columns.push_back(std::move(column));
  } else {
    *same = std::move(column);
  }
  return absl::OkStatus();
}

}  // namespace

std::string DefaultClass(const v1::ColumnTransform& transform) {
  return transform.columns().empty() ? "Cast" : "Stack";
}

absl::Status CompleteDataset(v1::DatasetSpec* spec) {
  if (!spec->has_source_class()) {
    std::vector<std::string> names;
    for (const ClassSchema* schema : Sources().Schemas()) names.push_back(schema->name);
    return InvalidArgument("a dataset needs a source; there are {}", fmt::join(names, ", "));
  }
  COHORT_ASSIGN_OR_RETURN(*spec->mutable_source_class(),
                          CompleteConfig(Sources(), spec->source_class()));
  for (Transform& transform : *spec->mutable_transforms()) {
    COHORT_RETURN_IF_ERROR(Annotate(Complete(&transform), NameOf(transform)));
  }
  return absl::OkStatus();
}

ColumnUse UseOfColumns(const v1::DatasetSpec& spec) {
  ColumnUse use;
  std::set<std::string> made;  // names that no longer stand for a column of the source
  for (const Transform& transform : spec.transforms()) {
    const auto its_class = Transforms().Find(transform.transform_class().class_name());
    const bool words = its_class.ok() && (*its_class)->reads_words;
    for (const std::string& name : InputsOf(transform)) {
      if (!made.contains(name)) (words ? use.text : use.numbers).insert(name);
    }
    made.insert(OutputOf(transform));
  }
  for (const std::string& label : LabelsOf(spec)) {
    if (!made.contains(label)) use.numbers.insert(label);
  }
  return use;
}

absl::Status ApplyTransform(v1::ColumnTransform* transform, Table* table) {
  return Annotate(Apply(transform, table), NameOf(*transform));
}

}  // namespace cohort
