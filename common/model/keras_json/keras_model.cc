#include "common/model/keras_json/keras_model.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/model/keras_json/keras_calls.h"
#include "common/model/keras_json/keras_config.h"
#include "common/model/keras_json/tensorflow_functions.h"

namespace cohort {
namespace {

using Json = nlohmann::json;

bool IsModel(const std::string& class_name) {
  return class_name == "Sequential" || class_name == "Functional" || class_name == "Model";
}

// The shape of an input with the batch, under any of its names in Keras; null if there is none.
const Json* BatchShape(const Json& config) {
  for (const char* key : {"batch_shape", "batch_input_shape"}) {
    const Json* const shape = FindMember(config, key);
    if (shape != nullptr && shape->is_array() && !shape->empty()) return shape;
  }
  return nullptr;
}

// The shape for which a Sequential was built, or that of its first layer; null if it is open.
const Json* BuiltShape(const Json& sequential, const Json& first_layer) {
  for (const auto& [part, key] :
       {std::pair("config", "build_input_shape"), {"build_config", "input_shape"}}) {
    const Json* const config = FindMember(sequential, part);
    const Json* const shape = config == nullptr ? nullptr : FindMember(*config, key);
    if (shape != nullptr && shape->is_array() && !shape->empty()) return shape;
  }
  const Json* const config = FindMember(first_layer, "config");
  return config == nullptr ? nullptr : BatchShape(*config);
}

// The shape of one record. None if an axis is open: then the column decides.
absl::StatusOr<v1::ConfigValue> RecordShape(const Json& batch_shape) {
  if (!batch_shape[0].is_null()) {
    return Unimplemented("a fixed batch size is not supported yet; leave it out");
  }
  std::vector<int64_t> dims;
  for (size_t i = 1; i < batch_shape.size(); ++i) {
    if (batch_shape[i].is_null()) return v1::ConfigValue();
    if (!batch_shape[i].is_number_integer()) {
      return InvalidArgument("{} is no shape", ShortText(batch_shape));
    }
    dims.push_back(batch_shape[i].get<int64_t>());
  }
  if (dims.empty()) return Unimplemented("an input without an axis is not supported yet");
  return ConfigOf(dims);
}

// The name of an Input that Keras left out of a Sequential: no other layer has it.
std::string FreeInputName(const std::vector<KerasLayer>& layers) {
  std::string name = "input_layer";
  const auto has_it = [&](const KerasLayer& layer) { return layer.name == name; };
  while (std::any_of(layers.begin(), layers.end(), has_it)) name += "_";
  return name;
}

std::string NameOf(const Json& layer) {
  const std::string name = StringMember(layer, "name");
  const Json* const config = FindMember(layer, "config");
  return name.empty() && config != nullptr ? StringMember(*config, "name") : name;
}

// A layer, for errors.
std::string WhereOf(const Json& layer, size_t index, const std::string& path) {
  return fmt::format("{}layers[{}] \"{}\" ({})", path, index, PrintableLine(NameOf(layer)),
                     PrintableLine(StringMember(layer, "class_name")));
}

// Resolves references to the layers of one functional model.
class Resolver {
 public:
  // `layers` of the model, and the JSON of each.
  Resolver(const std::vector<KerasLayer>& layers, const Json& texts) : layers_(layers) {
    for (size_t i = 0; i < layers.size(); ++i) by_name_.emplace(layers[i].name, i);
    for (const Json& text : texts) {
      const Json* const nodes = FindMember(text, "inbound_nodes");
      if (nodes == nullptr || !nodes->is_array()) continue;
      for (const Json& node : *nodes) is_keras_2_ = is_keras_2_ || node.is_array();
    }
    for (const Json& text : texts) first_call_.push_back(FirstCallOfKeras2(text));
    for (const Json& text : texts) {
      first_call_at_end_.push_back(
          is_keras_2_ ? first_call_.at(first_call_at_end_.size())
                      : static_cast<int64_t>(StringMember(text, "class_name") != "Sequential" &&
                                             IsModel(StringMember(text, "class_name"))));
    }
  }

  // `is_end`: the reference is an input or output of the model, not an argument of a call.
  absl::StatusOr<KerasTensor> Resolve(const KerasReference& reference, bool is_end) const {
    const auto it = by_name_.find(reference.layer);
    if (it == by_name_.end()) {
      return InvalidArgument("there is no layer \"{}\"", PrintableLine(reference.layer));
    }
    const KerasLayer& layer = layers_[it->second];
    const int64_t first =
        is_end ? first_call_at_end_[it->second] : (is_keras_2_ ? first_call_[it->second] : 0);
    const int64_t call = reference.call - first;
    if (call < 0 || call >= static_cast<int64_t>(layer.calls.size())) {
      return InvalidArgument("the layer \"{}\" has no call {}", PrintableLine(reference.layer),
                             reference.call);
    }
    // How many parts a layer has, its shapes decide.
    constexpr size_t kMostParts = 1000;
    const size_t outputs = layer.model != nullptr               ? layer.model->outputs.size()
                           : layer.layer_class->several_outputs ? kMostParts
                                                                : 1;
    if (reference.output < 0 || reference.output >= static_cast<int64_t>(outputs)) {
      return InvalidArgument("the layer \"{}\" has no output {}", PrintableLine(reference.layer),
                             reference.output);
    }
    return KerasTensor{it->second, static_cast<size_t>(call), static_cast<size_t>(reference.output),
                       nullptr};
  }

  absl::StatusOr<KerasLayerCall> ResolveCall(const KerasCall& call) const {
    KerasLayerCall result;
    for (const KerasInput& input : call.inputs) {
      KerasTensor& tensor = result.inputs.emplace_back();
      tensor.constant = input.constant;
      if (!input.name.empty()) result.names.push_back(input.name);
      if (input.constant != nullptr) continue;
      COHORT_ASSIGN_OR_RETURN(tensor, Resolve(input.reference, false));
    }
    for (const auto& mask : call.masks) {
      result.masks.emplace_back();
      if (!mask) continue;
      COHORT_ASSIGN_OR_RETURN(result.masks.back(), Resolve(*mask, false));
    }
    return result;
  }

 private:
  // A model that is made with its Input has a call of its own, number 0. Keras 2 counts it
  // (_should_skip_first_node of tf_keras/src/engine/functional.py), Keras 3 only in `output_layers`
  // (keras/src/models/functional.py).
  static int64_t FirstCallOfKeras2(const Json& text) {
    const std::string class_name = StringMember(text, "class_name");
    const Json* const config = FindMember(text, "config");
    if (!IsModel(class_name) || config == nullptr) return 0;
    const Json* const layers = FindMember(*config, "layers");
    if (layers == nullptr || !layers->is_array() || layers->empty()) return 0;
    return StringMember(layers->front(), "class_name") == "InputLayer" ? 1 : 0;
  }

  const std::vector<KerasLayer>& layers_;
  std::map<std::string, size_t> by_name_;
  bool is_keras_2_ = false;
  std::vector<int64_t> first_call_;         // by layer, in Keras 2
  std::vector<int64_t> first_call_at_end_;  // in `input_layers` and `output_layers`
};

// The config of a call that has arguments beside tensors.
absl::StatusOr<std::optional<v1::ClassConfig>> CallConfig(
    const KerasLayer& layer, const std::map<std::string, v1::ConfigValue>& arguments) {
  if (arguments.empty() && !IsOperation(layer)) return std::optional<v1::ClassConfig>();
  v1::ClassConfig config = layer.config;
  for (const auto& [name, value] : arguments) (*config.mutable_config())[name] = value;
  COHORT_ASSIGN_OR_RETURN(config,
                          CompleteKerasConfig(layer.layer_class->schema, std::move(config)));
  return std::optional(std::move(config));
}

void AddLayers(const KerasModel& model, const std::string& path, int depth,
               std::vector<ModelLayer>* layers) {
  for (const KerasLayer& layer : model.layers) {
    if (IsOperation(layer)) continue;  // Keras' model.layers has none
    const std::string name = path + layer.name;
    if (layer.model == nullptr) {
      layers->push_back({name, layer.layer_class->schema.name, depth});
      continue;
    }
    layers->push_back({name, layer.model->is_sequential ? "Sequential" : "Functional", depth});
    AddLayers(*layer.model, name + "/", depth + 1, layers);
  }
}

}  // namespace

std::vector<ModelLayer> LayersOf(const KerasModel& model) {
  std::vector<ModelLayer> layers;
  AddLayers(model, "", 0, &layers);
  return layers;
}

bool IsInput(const KerasLayer& layer) {
  return layer.layer_class != nullptr && layer.layer_class->build == nullptr;
}

bool IsOperation(const KerasLayer& layer) {
  return layer.layer_class != nullptr &&
         layer.layer_class->schema.name.starts_with(kOperationPrefix);
}

absl::StatusOr<KerasModel> KerasModelReader::Read(const Json& model) {
  const std::string class_name = StringMember(model, "class_name");
  if (model.is_string()) {
    return InvalidArgument(
        "it holds the JSON within a string: write the text of model.to_json() into the file as it "
        "is");
  }
  if (!IsModel(class_name)) {
    return InvalidArgument(
        "{} is no model of Keras: model.to_json() writes {{\"class_name\": "
        "\"Functional\", \"config\": ...}}",
        ShortText(model));
  }
  is_keras_2_ = StringMember(model, "keras_version").starts_with("2");
  return ReadModel(model, "");
}

// `path`: the models around the layers, `"inner" > `.
absl::StatusOr<KerasModel> KerasModelReader::ReadModel(const Json& model, const std::string& path) {
  KerasModel result;
  const Json* const config = FindMember(model, "config");
  const Json* layers = config;  // Keras 1 has a list of layers here
  if (config != nullptr && config->is_object()) {
    result.name = StringMember(*config, "name");
    const Json* const trainable = FindMember(*config, "trainable");
    result.trainable = trainable == nullptr || *trainable != false;
    layers = FindMember(*config, "layers");
  }
  if (layers == nullptr || !layers->is_array() || layers->empty()) {
    return InvalidArgument("the model \"{}\" has no layers", PrintableLine(result.name));
  }
  Json rewritten;
  if (std::ranges::any_of(*layers, IsTensorFlowFunction)) {
    rewritten = *layers;
    for (size_t i = 0; i < rewritten.size(); ++i) {
      if (!IsTensorFlowFunction(rewritten[i])) continue;
      COHORT_RETURN_IF_ERROR(
          Annotate(ToKerasOperation(&rewritten[i]), WhereOf(rewritten[i], i, path)));
    }
    layers = &rewritten;
  }
  std::set<std::string> names;
  for (const Json& layer : *layers) {
    COHORT_ASSIGN_OR_RETURN(KerasLayer read, ReadLayer(layer, result.layers.size(), path));
    if (!names.insert(read.name).second) {
      return InvalidArgument("{}: there is another layer of this name", read.where);
    }
    result.layers.push_back(std::move(read));
  }
  result.is_sequential = StringMember(model, "class_name") == "Sequential";
  COHORT_RETURN_IF_ERROR(result.is_sequential ? ReadSequential(model, *layers, path, &result)
                                              : ReadFunctional(*config, *layers, path, &result));
  return result;
}

absl::Status KerasModelReader::ReadSequential(const Json& model, const Json& layers,
                                              const std::string& path, KerasModel* result) {
  if (!IsInput(result->layers[0])) {
    const Json* const shape = BuiltShape(model, layers[0]);
    KerasLayer input;
    input.name = FreeInputName(result->layers);
    input.where = fmt::format("{}the input of the model", path);
    COHORT_ASSIGN_OR_RETURN(input.layer_class, Layers().Find("Input"));
    v1::ClassConfig given;
    if (shape != nullptr) {
      auto dims = RecordShape(*shape);
      if (!dims.ok()) return Annotate(dims.status(), input.where);
      (*given.mutable_config())["shape"] = *std::move(dims);
    }
    COHORT_ASSIGN_OR_RETURN(input.config, CompleteConfig(input.layer_class->schema, given));
    result->layers.insert(result->layers.begin(), std::move(input));
  }
  for (size_t i = 0; i < result->layers.size(); ++i) {
    KerasLayer& layer = result->layers[i];
    if (i > 0 && IsInput(layer)) {
      return InvalidArgument("{}: it must be the first layer", layer.where);
    }
    layer.calls.emplace_back();
    if (i > 0) layer.calls[0].inputs.push_back({i - 1, 0, 0, nullptr});
    if (layer.model == nullptr || layer.model->outputs.size() == 1) continue;
    return InvalidArgument("{}: a layer of a Sequential must have one output, not {}", layer.where,
                           layer.model->outputs.size());
  }
  result->inputs.push_back({0, 0, 0, nullptr});
  result->outputs.push_back({result->layers.size() - 1, 0, 0, nullptr});
  result->output_names.push_back(result->layers.back().name);
  return absl::OkStatus();
}

absl::Status KerasModelReader::ReadFunctional(const Json& config, const Json& layers,
                                              const std::string& path, KerasModel* result) {
  std::vector<std::vector<KerasCall>> calls(result->layers.size());
  for (size_t i = 0; i < result->layers.size(); ++i) {
    KerasLayer& layer = result->layers[i];
    const Json* const nodes = FindMember(layers[i], "inbound_nodes");
    if (nodes == nullptr || !nodes->is_array()) {
      return InvalidArgument("{}: it has no \"inbound_nodes\"", layer.where);
    }
    for (const Json& node : *nodes) {
      auto call = ReadKerasCall(node, layer.layer_class);
      if (!call.ok()) return Annotate(call.status(), layer.where);
      if (call->inputs.empty()) return InvalidArgument("{}: a call has no input", layer.where);
      calls[i].push_back(*std::move(call));
    }
    if (IsInput(layer)) {
      if (!calls[i].empty()) return InvalidArgument("{}: it has an input", layer.where);
      calls[i].emplace_back();
    }
    layer.calls.resize(calls[i].size());
  }
  const Resolver resolver(result->layers, layers);
  for (size_t i = 0; i < calls.size(); ++i) {
    KerasLayer& layer = result->layers[i];
    for (size_t call = 0; call < calls[i].size(); ++call) {
      auto resolved = resolver.ResolveCall(calls[i][call]);
      if (!resolved.ok()) return Annotate(resolved.status(), layer.where);
      layer.calls[call] = *std::move(resolved);
      auto config = CallConfig(layer, calls[i][call].arguments);
      if (!config.ok()) return Annotate(config.status(), layer.where);
      layer.calls[call].config = *std::move(config);
    }
  }
  const auto read_ends = [&](const char* key, std::vector<KerasTensor>* tensors,
                             std::vector<std::string>* names) -> absl::Status {
    const std::string where = path + key;
    const Json* const ends = FindMember(config, key);
    if (ends == nullptr) return InvalidArgument("{} is missing", where);
    auto references = ReadKerasEnds(*ends);
    if (!references.ok()) return Annotate(references.status(), where);
    for (const KerasReference& reference : *references) {
      auto tensor = resolver.Resolve(reference, true);
      if (!tensor.ok()) return Annotate(tensor.status(), where);
      tensors->push_back(*tensor);
      names->push_back(reference.key.empty() ? reference.layer : reference.key);
    }
    if (tensors->empty()) return InvalidArgument("{} is empty", where);
    return absl::OkStatus();
  };
  std::vector<std::string> input_names;
  COHORT_RETURN_IF_ERROR(read_ends("input_layers", &result->inputs, &input_names));
  for (size_t i = 0; i < input_names.size(); ++i) {
    KerasLayer& layer = result->layers[result->inputs[i].layer];
    if (!IsInput(layer))
      return InvalidArgument("{}: it is no InputLayer, but an input", layer.where);
    // The key of a mapping is the name of the column.
    if (input_names[i] != layer.name) {
      (*layer.config.mutable_config())["feature"] = ConfigOf(std::string_view(input_names[i]));
    }
  }
  return read_ends("output_layers", &result->outputs, &result->output_names);
}

absl::StatusOr<KerasLayer> KerasModelReader::ReadLayer(const Json& layer, size_t index,
                                                       const std::string& path) {
  KerasLayer result;
  const std::string class_name = StringMember(layer, "class_name");
  const Json* const config = FindMember(layer, "config");
  result.name = NameOf(layer);
  result.where = WhereOf(layer, index, path);
  if (class_name.empty() || config == nullptr || result.name.empty()) {
    return InvalidArgument(
        "{}layers[{}] is no layer: it needs \"class_name\", \"config\" and a name", path, index);
  }
  // TensorFlow before 2.13 wrote it. Keras reads such a layer as one; later versions as two.
  const Json* const id = FindMember(layer, "shared_object_id");
  if (id != nullptr && id->is_number_integer() && !shared_ids_.insert(id->get<int64_t>()).second) {
    return Unimplemented("{}: a layer that two models share is not supported yet", result.where);
  }
  if (!IsModel(class_name)) {
    COHORT_RETURN_IF_ERROR(Annotate(ReadConfig(layer, &result), result.where));
    return result;
  }
  COHORT_ASSIGN_OR_RETURN(
      KerasModel model,
      ReadModel(layer, fmt::format("{}\"{}\" > ", path, PrintableLine(result.name))));
  result.model = std::make_unique<KerasModel>(std::move(model));
  return result;
}

// The layers that are arguments of another one, as that of TimeDistributed, without the keys that
// are no arguments. Their names go into arguments beside them: `layer_name`.
void PrepareInnerLayers(const ClassSchema& schema, v1::ClassConfig* given) {
  auto* const arguments = given->mutable_config();
  const auto prepare = [](v1::ClassConfig* layer) {
    const auto found = Layers().FindSchema(layer->class_name());
    if (found.ok()) PrepareInnerLayers(**found, layer);
    for (const char* const key : {"name", "dtype", "batch_shape", "batch_input_shape"}) {
      layer->mutable_config()->erase(key);
    }
  };
  for (const Argument& argument : schema.arguments) {
    const auto inner = arguments->find(argument.name);
    if (inner == arguments->end() || argument.classes == nullptr) continue;
    if (&argument.classes() != &Layers()) continue;
    if (argument.type == ArgumentType::kObjectList && inner->second.has_list()) {
      for (v1::ConfigValue& item : *inner->second.mutable_list()->mutable_values()) {
        if (item.has_object()) prepare(item.mutable_object());
      }
    }
    if (argument.type != ArgumentType::kObject || !inner->second.has_object()) continue;
    v1::ClassConfig* const layer = inner->second.mutable_object();
    const auto name = layer->config().find("name");
    const std::string name_argument = argument.name + "_name";
    if (name != layer->config().end() && schema.Find(name_argument) != nullptr) {
      (*arguments)[name_argument] = name->second;
    }
    prepare(layer);
  }
}

// hard_sigmoid is another function in Keras 2.
void UseActivationsOfKeras2(v1::ClassConfig* config) {
  for (auto& [name, value] : *config->mutable_config()) {
    if (value.has_object()) UseActivationsOfKeras2(value.mutable_object());
    if (value.has_list()) {
      for (v1::ConfigValue& item : *value.mutable_list()->mutable_values()) {
        if (item.has_object()) UseActivationsOfKeras2(item.mutable_object());
      }
    }
    if (name.ends_with("activation") && value.s() == "hard_sigmoid") {
      value = ConfigOf("hard_sigmoid_of_keras_2");
    }
  }
}

// The config of an operation lacks what its calls have.
absl::Status KerasModelReader::ReadOperation(const Json& layer, KerasLayer* result) {
  const std::string name = SnakeCase(StringMember(layer, "class_name"));
  COHORT_ASSIGN_OR_RETURN(result->layer_class,
                          Operations().Find(fmt::format("{}{}", kOperationPrefix, name)));
  COHORT_ASSIGN_OR_RETURN(result->config, ReadKerasClass(layer));
  auto* const arguments = result->config.mutable_config();
  arguments->erase("name");
  // A number of parts, or a list of places.
  const auto sections = arguments->find("indices_or_sections");
  if (sections != arguments->end() && sections->second.has_list()) {
    (*arguments)["indices"] = sections->second;
    arguments->erase("indices_or_sections");
  }
  return absl::OkStatus();
}

absl::Status KerasModelReader::ReadConfig(const Json& layer, KerasLayer* result) {
  COHORT_RETURN_IF_ERROR(CheckKerasModule(layer));
  if (IsKerasOperation(layer)) return ReadOperation(layer, result);
  const std::string class_name = StringMember(layer, "class_name");
  COHORT_ASSIGN_OR_RETURN(result->layer_class,
                          Layers().Find(class_name == "InputLayer" ? "Input" : class_name));
  const Json& config = *FindMember(layer, "config");
  COHORT_ASSIGN_OR_RETURN(v1::ClassConfig given, ReadKerasClass(layer));
  if (is_keras_2_) UseActivationsOfKeras2(&given);
  auto* const arguments = given.mutable_config();
  arguments->erase("name");
  // Keras 2 writes it into any layer that is the first of a Sequential.
  const Json* const batch_shape = BatchShape(config);
  for (const char* shape : {"batch_shape", "batch_input_shape", "input_length"}) {
    arguments->erase(shape);
  }
  PrepareInnerLayers(result->layer_class->schema, &given);
  // Keras 2 writes the one axis of BatchNormalization as a list.
  if (const auto axis = arguments->find("axis"); class_name == "BatchNormalization" &&
                                                 axis != arguments->end() &&
                                                 axis->second.list().values_size() == 1) {
    const v1::ConfigValue only = axis->second.list().values(0);
    axis->second = only;
  }
  if (result->layer_class->on_data) {
    // Keras writes what follows from the other arguments.
    arguments->erase("dtype");
    arguments->erase("vocabulary_size");
    if (class_name == "StringLookup") arguments->erase("oov_method");
  } else if (!IsInput(*result)) {
    COHORT_RETURN_IF_ERROR(CheckDType(config));
    arguments->erase("dtype");
  } else if (batch_shape != nullptr) {
    COHORT_ASSIGN_OR_RETURN((*arguments)["shape"], RecordShape(*batch_shape));
  }
  COHORT_ASSIGN_OR_RETURN(result->config,
                          CompleteKerasConfig(result->layer_class->schema, std::move(given)));
  return absl::OkStatus();
}

absl::Status KerasModelReader::CheckDType(const Json& config) {
  const Json* const given = FindMember(config, "dtype");
  if (given == nullptr || !checks_dtype_) return absl::OkStatus();
  const std::string name = DTypePolicyName(*given);
  if (name != "float32" && name != "float64") {
    const bool is_mixed = name.starts_with("mixed_");
    return Unimplemented(
        "the dtype policy \"{}\" is not supported yet; supported: float32, float64{}",
        PrintableLine(name),
        is_mixed ? ". Set `model.dtype: float32`, and `mixed_precision` in the job" : "");
  }
  if (dtype_.empty()) dtype_ = name;
  if (dtype_ == name) return absl::OkStatus();
  return Unimplemented(
      "its dtype is {}, and that of layers before it {}: models of several dtypes are "
      "not supported yet; set `model.dtype` in the job to train in one",
      name, dtype_);
}

}  // namespace cohort
