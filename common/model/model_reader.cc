#include "common/model/model_reader.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/model/layers/layer.h"
#include "common/model/traced_model.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The class of a layer in a list: `Flatten`, `{Dense: {units: 2}}`, `{class_name: Dense}`.
std::string NameOf(const YAML::Node& item) {
  if (item.IsScalar()) return item.Scalar();
  if (!item.IsMap()) return "";
  std::string name;
  for (const auto& pair : item) {
    if (!pair.first.IsScalar()) continue;
    if (pair.first.Scalar() == "class_name" && pair.second.IsScalar()) return pair.second.Scalar();
    if (name.empty()) name = pair.first.Scalar();
  }
  return name;
}

}  // namespace

absl::Status ModelReader::Read(const YAML::Node& node, const std::string& path,
                               v1::ModelSpec* model) {
  COHORT_ASSIGN_OR_RETURN(
      const auto entries,
      Entries(node, "`model`", "model: {sequential: [Flatten, {Dense: {units: 10}}]}"));
  const Entry* keras_json = nullptr;
  const Entry* traced = nullptr;
  bool has_dtype = false;
  for (const Entry& entry : entries) {
    if (entry.key == "sequential" || entry.key == "functional") {
      if (!model->layers().empty()) {
        return Error(entry.line, "a model is either sequential or functional");
      }
      COHORT_RETURN_IF_ERROR(ReadLayers(entry, entry.key == "functional", model));
    } else if (entry.key == "keras_json") {
      if (!entry.value.IsNull()) keras_json = &entry;
    } else if (entry.key == "traced") {
      if (!entry.value.IsNull()) traced = &entry;
    } else if (entry.key == "name" || entry.key == "dtype" || entry.key == "outputs" ||
               entry.key == "output_names" || entry.key == "devices") {
      has_dtype = has_dtype || (entry.key == "dtype" && !entry.value.IsNull());
      COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, model));
    } else {
      return UnknownKey(entry.line, entry.key, "`model`",
                        {"name", "dtype", "sequential", "functional", "keras_json", "traced",
                         "outputs", "output_names", "devices"});
    }
  }
  if (traced != nullptr) COHORT_RETURN_IF_ERROR(ReadTraced(*traced, has_dtype, model));
  if (keras_json != nullptr) {
    if (!has_dtype) model->clear_dtype();
    COHORT_RETURN_IF_ERROR(ReadKerasJson(*keras_json, model));
  }
  const auto& names = model->output_names().empty() ? model->outputs() : model->output_names();
  if (!names.empty()) {
    outputs_.assign(names.begin(), names.end());
  } else if (!model->layers().empty()) {
    outputs_ = {model->layers(model->layers_size() - 1).name()};
  }
  return absl::OkStatus();
}

absl::Status ModelReader::ReadKerasJson(const Entry& entry, v1::ModelSpec* model) {
  if (!model->layers().empty() || !model->outputs().empty()) {
    return Error(entry.line,
                 "a model has either `keras_json` or layers and outputs in the job file");
  }
  Note("model.layers", entry.line);
  COHORT_ASSIGN_OR_RETURN(const std::string given, Text(entry.value, "model.keras_json"));
  const std::filesystem::path path = std::filesystem::path(file()).parent_path() / given;
  auto json = KerasJsonFile::Read(path.string());
  if (!json.ok()) return Annotate(json.status(), fmt::format("{}:{}", file(), entry.line));
  keras_json_.emplace(*std::move(json));
  COHORT_ASSIGN_OR_RETURN(json_layers_, keras_json_->SetModel(model));
  return absl::OkStatus();
}

absl::StatusOr<v1::ModelSpec> ReadModelJson(const std::string& json, const std::string& file) {
  JobLines lines{.file = file, .keys = {}};
  v1::ModelSpec model;
  try {
    const YAML::Node node = YAML::Load(json);
    for (const char* key : {"traced", "keras_json"}) {
      // It has the layers itself; otherwise a file could name itself.
      if (node.IsMap() && node[key])
        return InvalidArgument("{}:1: it may not name `{}`", file, key);
    }
    COHORT_RETURN_IF_ERROR(ModelReader(&lines).Read(node, "model", &model));
  } catch (const YAML::Exception& error) {
    return InvalidArgument("{}:{}: not JSON: {}", file, error.mark.line + 1, error.msg);
  }
  return model;
}

absl::Status ModelReader::ReadTraced(const Entry& entry, bool has_dtype, v1::ModelSpec* model) {
  if (!model->layers().empty() || !model->outputs().empty()) {
    return Error(entry.line, "a model has either `traced` or layers and outputs in the job file");
  }
  Note("model.layers", entry.line);
  COHORT_ASSIGN_OR_RETURN(traced_, Text(entry.value, "model.traced"));
  const std::filesystem::path path = std::filesystem::path(file()).parent_path() / traced_;
  const auto traced = ReadTracedModel(path.string());
  if (!traced.ok()) return Annotate(traced.status(), fmt::format("{}:{}", file(), entry.line));
  COHORT_ASSIGN_OR_RETURN(v1::ModelSpec own, ReadModelJson(traced->layers, traced->path));
  if (has_dtype) own.clear_dtype();
  if (!model->name().empty()) own.clear_name();
  model->MergeFrom(own);
  return absl::OkStatus();
}

absl::Status ModelReader::ReadLayers(const Entry& entry, bool functional, v1::ModelSpec* model) {
  if (!entry.value.IsSequence() || entry.value.size() == 0) {
    return Error(entry.line,
                 "`model.{}` must be a list of layers; for example `{}: [Flatten, "
                 "{{Dense: {{units: 10}}}}]`",
                 entry.key, entry.key);
  }
  COHORT_ASSIGN_OR_RETURN(const std::vector<YAML::Node> items,
                          Items(entry.value, "model." + entry.key));
  for (const YAML::Node& item : items) {
    COHORT_RETURN_IF_ERROR(ReadLayer(item, functional, model));
  }
  return absl::OkStatus();
}

absl::Status ModelReader::ReadLayer(const YAML::Node& item, bool functional, v1::ModelSpec* model) {
  std::string path = fmt::format("model.layers[{}]", model->layers_size());
  const auto& classes = LayersFor(NameOf(item));
  COHORT_ASSIGN_OR_RETURN(ClassNode node, ReadClassNode(item, path, classes));
  if (&classes == &Operations()) node.name = NameOf(item);  // "ops." is no module
  const auto found = classes.Find(node.name);
  if (!found.ok()) return AtLine(node.line, found.status());
  const LayerClass& layer_class = **found;
  // TensorFlow's first layer may have the shape of the model's input.
  if (!functional && model->layers().empty() && layer_class.min_inputs > 0) {
    if (auto shape = node.Take("input_shape")) {
      COHORT_RETURN_IF_ERROR(AddInput(*std::move(shape), model));
      path = "model.layers[1]";
    }
  }
  Note(path, node.line);
  v1::LayerSpec* layer = model->add_layers();
  layer->set_class_name(layer_class.schema.name);
  if (const auto name = node.Take("name"); name && !name->value.IsNull()) {
    Note(path + ".name", name->line);
    COHORT_ASSIGN_OR_RETURN(*layer->mutable_name(), Text(name->value, path + ".name"));
  }
  if (layer_class.min_inputs > 0) {
    if (const auto inputs = node.Take("inputs")) {
      COHORT_RETURN_IF_ERROR(ReadInputs(*inputs, path + ".inputs", functional, layer));
    }
  }
  if (const auto masks = node.Take("masks"); masks && layer_class.min_inputs > 0) {
    Note(path + ".masks", masks->line);
    COHORT_RETURN_IF_ERROR(ReadNames(*masks, path + ".masks", "masks", layer));
  }
  if (const auto device = node.Take("device"); device && !device->value.IsNull()) {
    Note(path + ".device", device->line);
    COHORT_ASSIGN_OR_RETURN(*layer->mutable_device(), Text(device->value, path + ".device"));
  }
  if (const auto shares = node.Take("shares"); shares && !shares->value.IsNull()) {
    COHORT_RETURN_IF_ERROR(ReadShares(*shares, path, node, layer_class, layer));
  } else {
    v1::ClassConfig config;
    COHORT_RETURN_IF_ERROR(ReadArguments(node, path, layer_class.schema, &config));
    *layer->mutable_config() = std::move(*config.mutable_config());
  }
  if (functional && layer_class.min_inputs > 0 && layer->inputs().empty()) {
    return Error(node.line, "{} needs its `inputs`: the names of layers above",
                 layer->class_name());
  }
  return absl::OkStatus();
}

absl::Status ModelReader::ReadShares(const Entry& entry, const std::string& path,
                                     const ClassNode& node, const LayerClass& layer_class,
                                     v1::LayerSpec* layer) {
  Note(path + ".shares", entry.line);
  COHORT_ASSIGN_OR_RETURN(*layer->mutable_shares(), Text(entry.value, path + ".shares"));
  // Beside the arguments of the layer, a call has its own.
  ClassSchema own = layer_class.schema;
  own.arguments.clear();
  for (const Entry& argument : node.arguments) {
    if (std::ranges::count(layer_class.call_arguments, argument.key) > 0) {
      own.arguments.push_back(*layer_class.schema.Find(argument.key));
      continue;
    }
    return Error(
        argument.line,
        "a layer that `shares` the variables of \"{}\" has its arguments too; leave out `{}`",
        layer->shares(), argument.key);
  }
  v1::ClassConfig config;
  COHORT_RETURN_IF_ERROR(ReadArguments(node, path, own, &config));
  *layer->mutable_config() = std::move(*config.mutable_config());
  return absl::OkStatus();
}

absl::Status ModelReader::AddInput(Entry shape, v1::ModelSpec* model) {
  const std::string path = "model.layers[0]";
  Note(path, shape.line);
  COHORT_ASSIGN_OR_RETURN(const LayerClass* input, Layers().Find("Input"));
  ClassNode node{.name = "Input", .line = shape.line, .has_arguments = true};
  shape.key = "shape";
  node.arguments.push_back(std::move(shape));
  v1::ClassConfig config;
  COHORT_RETURN_IF_ERROR(ReadArguments(node, path, input->schema, &config));
  v1::LayerSpec* layer = model->add_layers();
  layer->set_class_name("Input");
  *layer->mutable_config() = std::move(*config.mutable_config());
  return absl::OkStatus();
}

absl::Status ModelReader::ReadInputs(const Entry& entry, const std::string& path, bool functional,
                                     v1::LayerSpec* layer) {
  Note(path, entry.line);
  if (!functional) {
    return Error(entry.line,
                 "the input of a layer of a sequential model is the layer before it; `inputs` is "
                 "for functional models");
  }
  return ReadNames(entry, path, "inputs", layer);
}

absl::Status ModelReader::ReadNames(const Entry& entry, const std::string& path,
                                    const std::string& field, v1::LayerSpec* layer) {
  const auto* const descriptor = layer->GetDescriptor()->FindFieldByName(field);
  if (!entry.value.IsScalar()) return ReadField(entry, path, descriptor, layer);
  layer->GetReflection()->AddString(layer, descriptor, entry.value.Scalar());
  return absl::OkStatus();
}

}  // namespace cohort
