#include "common/model/dataset_reader.h"

#include <algorithm>

#include "common/data/row_filter.h"
#include "common/data/source_class.h"
#include "common/data/transform.h"
#include "common/data/transform_class.h"
#include "common/model/job_defaults.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The arguments of transforms that may be keys of the transform itself. `lookup: string` only names
// the class.
struct ShortKey {
  const char* key;
  const char* class_name;
  const char* argument;
};
constexpr ShortKey kShortKeys[] = {
    {"lookup", "StringLookup", ""},
    {"vocabulary", "StringLookup", "vocabulary"},
    {"num_oov_indices", "StringLookup", "num_oov_indices"},
    {"scale", "Rescaling", "scale"},
    {"offset", "Rescaling", "offset"},
    {"equals", "Equals", "value"},
    {"expression", "Expression", "expression"},
};

// The keys of a transform that name no class.
constexpr std::string_view kTransformKeys[] = {
    "column", "output", "columns", "dtype", "segmentation_masks", "labels"};

// Null for a key that names a class: `equals: x` is short, `Equals: {value: x}` names it.
const ShortKey* FindShortKey(std::string_view key, const YAML::Node& value) {
  const auto found = std::find_if(std::begin(kShortKeys), std::end(kShortKeys),
                                  [key](const ShortKey& k) { return k.key == key; });
  return found == std::end(kShortKeys) || value.IsMap() ? nullptr : found;
}

// The fields of a dataset that a job file does not name so.
bool IsNoKey(std::string_view field) {
  return field == "source_class" || field == "labels" || field == "reads";
}

std::vector<std::string> NamesOf(const SchemaSet& classes) {
  std::vector<std::string> names;
  for (const ClassSchema* schema : classes.Schemas()) names.push_back(schema->name);
  return names;
}

}  // namespace

absl::Status DatasetReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                        Message* message) {
  SetReadingDefaults(path, message);
  if (auto* dataset = dynamic_cast<v1::DatasetSpec*>(message)) return Read(node, path, dataset);
  if (auto* transform = dynamic_cast<v1::ColumnTransform*>(message)) {
    return ReadTransform(node, path, transform);
  }
  return ClassReader::ReadMessage(node, path, message);
}

absl::Status DatasetReader::ReadField(const Entry& entry, const std::string& path,
                                      const Field* field, Message* message) {
  auto* dataset = dynamic_cast<v1::DatasetSpec*>(message);
  if (dataset != nullptr && entry.key == "label" && !entry.value.IsScalar()) {
    return ReadLabels(entry, path, dataset);
  }
  if (dataset != nullptr && entry.key == "sample_weight") {
    return ReadSampleWeight(entry, path, dataset);
  }
  if (dataset != nullptr && entry.key == "filter" && !entry.value.IsNull()) {
    COHORT_ASSIGN_OR_RETURN(*dataset->mutable_filter(), Text(entry.value, path));
    return AtLine(entry.line, RowFilter::Create(*dataset).status());
  }
  return ClassReader::ReadField(entry, path, field, message);
}

absl::Status DatasetReader::Read(const YAML::Node& node, const std::string& path,
                                 v1::DatasetSpec* dataset) {
  const std::string what = fmt::format("`{}`", path);
  COHORT_ASSIGN_OR_RETURN(
      const auto entries,
      Entries(node, what, path.substr(path.rfind('.') + 1) + ": {csv: {path: a.csv}, label: y}"));
  std::string source;  // the key that gave it
  const auto* descriptor = dataset->GetDescriptor();
  for (const Entry& entry : entries) {
    const auto* field = descriptor->FindFieldByName(entry.key);
    if (field != nullptr && !IsNoKey(field->name())) {
      COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, dataset));
      continue;
    }
    if (entry.key == "source" || Sources().FindSchema(entry.key).ok()) {
      if (entry.value.IsNull()) continue;
      if (!source.empty()) {
        return Error(entry.line, "\"{}\" and \"{}\" exclude each other: there is one source",
                     source, entry.key);
      }
      source = entry.key;
      COHORT_RETURN_IF_ERROR(ReadSource(entry, JoinKeys(path, entry.key), dataset));
      continue;
    }
    std::vector<std::string> known = NamesOf(Sources());
    for (int i = 0; i < descriptor->field_count(); ++i) {
      const std::string& name = descriptor->field(i)->name();
      if (name == "source_class") {
        known.push_back("source");
      } else if (!IsNoKey(name)) {
        known.push_back(name);
      }
    }
    return UnknownKey(entry.line, entry.key, what, known);
  }
  return absl::OkStatus();
}

absl::Status DatasetReader::ReadSource(const Entry& entry, const std::string& path,
                                       v1::DatasetSpec* dataset) {
  Note(path, entry.line);
  ClassNode node{.name = entry.key, .line = entry.line, .has_arguments = true};
  if (entry.key == "source") {
    COHORT_ASSIGN_OR_RETURN(node, ReadClassNode(entry.value, path, Sources()));
  } else {
    COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema, Sources().FindSchema(entry.key));
    const std::string text = ExampleText(entry.value);
    std::string example;
    if (!text.empty() && !schema->arguments.empty()) {
      example = fmt::format("{}: {{{}: {}}}", entry.key, schema->arguments[0].name, text);
    }
    COHORT_ASSIGN_OR_RETURN(node.arguments,
                            Entries(entry.value, fmt::format("`{}`", path), example));
  }
  const auto source = Sources().Find(node.name);
  if (!source.ok()) return AtLine(node.line, source.status());
  v1::ClassConfig* const config = dataset->mutable_source_class();
  COHORT_RETURN_IF_ERROR(ReadArguments(node, path, (*source)->schema, config));
  if (!(*source)->check) return absl::OkStatus();
  return AtLine(node.line, (*source)->check(Config(*config)));
}

absl::Status DatasetReader::ReadTransform(const YAML::Node& node, const std::string& path,
                                          v1::ColumnTransform* transform) {
  COHORT_ASSIGN_OR_RETURN(const auto entries,
                          Entries(node, fmt::format("`{}`", path),
                                  "transforms: [{column: image, Rescaling: {scale: 0.5}}]"));
  std::vector<Entry> class_entries;
  for (const Entry& entry : entries) {
    if (std::find(std::begin(kTransformKeys), std::end(kTransformKeys), entry.key) ==
        std::end(kTransformKeys)) {
      class_entries.push_back(entry);
      continue;
    }
    COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, transform));
    if (!transform->dtype().empty() && !DTypeFromName(transform->dtype()).has_value()) {
      return Error(
          entry.line,
          "there is no dtype \"{}\"; there are float32, float64, int32, int64, uint8, bool",
          transform->dtype().substr(0, 60));
    }
  }
  COHORT_RETURN_IF_ERROR(ReadTransformClass(class_entries, path, transform));
  COHORT_RETURN_IF_ERROR(AtLine(LineOf(node), FillColumns(transform)));
  if (transform->columns().empty() == transform->column().empty()) {
    return Error(LineOf(node), "a transform has either a `column` or several `columns`");
  }
  if (transform->columns().empty() || !transform->output().empty()) return absl::OkStatus();
  return Error(LineOf(node), "a transform of several `columns` needs an `output`, the new name");
}

absl::Status DatasetReader::ReadTransformClass(const std::vector<Entry>& entries,
                                               const std::string& path,
                                               v1::ColumnTransform* transform) {
  ClassNode node{.has_arguments = true};
  std::string class_path = path;
  bool by_class = false, has_lookup = false;
  for (const Entry& entry : entries) {
    const std::string key_path = JoinKeys(path, entry.key);
    Note(key_path, entry.line);
    const ShortKey* const short_key = FindShortKey(entry.key, entry.value);
    if (short_key != nullptr && entry.value.IsNull()) continue;
    COHORT_ASSIGN_OR_RETURN(const std::string name, short_key != nullptr
                                                        ? std::string(short_key->class_name)
                                                        : TransformName(entry, path));
    if (!node.name.empty() && (by_class || short_key == nullptr || node.name != name)) {
      return Error(entry.line, "\"{}\" and \"{}\" exclude each other: a transform has one class",
                   entries[0].key, entry.key);
    }
    if (node.name.empty()) node.line = entry.line;
    node.name = name;
    if (short_key == nullptr) {
      by_class = true;
      class_path = key_path;
      if (entry.value.IsNull()) continue;
      COHORT_ASSIGN_OR_RETURN(const ClassSchema* named, Transforms().FindSchema(name));
      COHORT_ASSIGN_OR_RETURN(
          node.arguments, Entries(entry.value, fmt::format("`{}`", entry.key), ExampleOf(*named)));
    } else if (*short_key->argument != '\0') {
      node.arguments.push_back({short_key->argument, entry.line, entry.value});
    } else {
      has_lookup = true;
      COHORT_ASSIGN_OR_RETURN(const std::string value, Text(entry.value, key_path));
      if (value == "string") continue;
      return Error(entry.line, "`lookup` must be string, not \"{}\"", value.substr(0, 60));
    }
  }
  if (node.name.empty()) node.name = DefaultClass(*transform);
  if (node.name == "StringLookup" && !by_class && !has_lookup) {
    return Error(node.line, "`{}` needs `lookup: string`", entries[0].key);
  }
  COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema, Transforms().FindSchema(node.name));
  return ReadArguments(node, class_path, *schema, transform->mutable_transform_class());
}

absl::StatusOr<std::string> DatasetReader::TransformName(const Entry& entry,
                                                         const std::string& path) const {
  const auto schema = Transforms().FindSchema(entry.key);
  if (schema.ok()) return (*schema)->name;
  if (absl::IsUnimplemented(schema.status())) return AtLine(entry.line, schema.status());
  std::vector<std::string> known(std::begin(kTransformKeys), std::end(kTransformKeys));
  for (const ShortKey& key : kShortKeys) known.push_back(key.key);
  for (std::string& name : NamesOf(Transforms())) known.push_back(std::move(name));
  return UnknownKey(entry.line, entry.key, fmt::format("`{}`", path), known);
}

absl::Status DatasetReader::ReadLabels(const Entry& entry, const std::string& path,
                                       v1::DatasetSpec* dataset) {
  if (entry.value.IsNull()) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> values, ByOutput(entry, path, outputs_));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].IsNull()) {
      return Error(entry.line, "`{}` has no column for the output \"{}\"", path, outputs_[i]);
    }
    COHORT_ASSIGN_OR_RETURN(*dataset->add_labels(), Text(values[i], path));
  }
  if (dataset->labels_size() > 1) return absl::OkStatus();
  dataset->set_label(dataset->labels(0));
  dataset->clear_labels();
  return absl::OkStatus();
}

absl::Status DatasetReader::ReadSampleWeight(const Entry& entry, const std::string& path,
                                             v1::DatasetSpec* dataset) {
  if (entry.value.IsNull()) {
    // It takes the place of the training set's column.
    if (path.starts_with("data.validation")) dataset->add_sample_weight();
    return absl::OkStatus();
  }
  if (entry.value.IsScalar()) {
    COHORT_ASSIGN_OR_RETURN(*dataset->add_sample_weight(), Text(entry.value, path));
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> values, ByOutput(entry, path, outputs_));
  for (const YAML::Node& value : values) {
    std::string* const column = dataset->add_sample_weight();
    if (value.IsNull()) continue;
    COHORT_ASSIGN_OR_RETURN(*column, Text(value, path));
  }
  return absl::OkStatus();
}

}  // namespace cohort
