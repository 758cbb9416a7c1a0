#include "common/model/job_reader.h"

#include <algorithm>

#include "common/model/job_defaults.h"
#include "common/model/losses.h"

namespace cohort {

absl::Status JobReader::AtLine(int line, const absl::Status& status) const {
  if (status.ok()) return status;
  const auto message = status.message();
  absl::Status located = Error(line, "{}", std::string_view(message.data(), message.size()));
  return absl::Status(status.code(), located.message());
}

absl::Status JobReader::ReadMessage(const YAML::Node& node, const std::string& path,
                                    Message* message) {
  SetReadingDefaults(path, message);
  if (auto* model = dynamic_cast<v1::ModelSpec*>(message)) return ReadModel(node, path, model);
  if (auto* compile = dynamic_cast<v1::CompileSpec*>(message)) {
    return ReadCompile(node, path, compile);
  }
  if (auto* partitioner = dynamic_cast<v1::PartitionerSpec*>(message)) {
    return ReadPartitioner(node, path, partitioner);
  }
  if (auto* initializer = dynamic_cast<v1::InitializerConfig*>(message)) {
    return ReadConfig(node, path, FindInitializer, initializer);
  }
  if (auto* optimizer = dynamic_cast<v1::OptimizerConfig*>(message)) {
    return ReadConfig(node, path, FindOptimizer, optimizer);
  }
  return YamlReader::ReadMessage(node, path, message);
}

absl::Status JobReader::ReadModel(const YAML::Node& node, const std::string& path,
                                  v1::ModelSpec* model) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, "`model`"));
  for (const Entry& entry : entries) {
    if (entry.key == "sequential" || entry.key == "functional") {
      if (!model->layers().empty()) {
        return Error(entry.line, "a model is either sequential or functional");
      }
      COHORT_RETURN_IF_ERROR(ReadLayers(entry, entry.key == "functional", model));
    } else if (entry.key == "keras_json") {
      return AtLine(entry.line,
                    Unimplemented("models from keras_json are not supported yet; write the "
                                  "layers under sequential or functional"));
    } else if (entry.key == "name" || entry.key == "dtype" || entry.key == "outputs") {
      COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, model));
    } else {
      return UnknownKey(entry.line, entry.key, "`model`",
                        {"name", "dtype", "sequential", "functional", "outputs"});
    }
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadLayers(const Entry& entry, bool functional, v1::ModelSpec* model) {
  if (!entry.value.IsSequence() || entry.value.size() == 0) {
    return Error(entry.line, "`model.{}` must be a list of layers", entry.key);
  }
  int i = 0;
  for (const YAML::Node& item : entry.value) {
    const std::string path = fmt::format("model.layers[{}]", i++);
    Note(path, LineOf(item));
    COHORT_RETURN_IF_ERROR(ReadLayer(item, path, functional, model->add_layers()));
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadLayer(const YAML::Node& item, const std::string& path, bool functional,
                                  v1::LayerSpec* layer) {
  std::vector<Entry> arguments;
  const int line = LineOf(item);
  if (item.IsScalar()) {
    layer->set_class_name(item.Scalar());
  } else {
    COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(item, "a layer"));
    if (entries.size() != 1) {
      return Error(line,
                   "a layer is one key, its class, with its arguments indented below it: "
                   "`- Dense: {{units: 10}}`");
    }
    layer->set_class_name(entries[0].key);
    if (!entries[0].value.IsNull()) {
      COHORT_ASSIGN_OR_RETURN(arguments,
                              Entries(entries[0].value, fmt::format("`{}`", entries[0].key)));
    }
  }
  const auto layer_class = FindLayer(layer->class_name());
  if (!layer_class.ok()) return AtLine(line, layer_class.status());
  if (layer->class_name() == "Concatenate") layer->set_axis(-1);
  COHORT_RETURN_IF_ERROR(ReadArguments(arguments, path, **layer_class, functional, layer));
  for (const LayerArgument& argument : (*layer_class)->arguments) {
    const bool given =
        std::any_of(arguments.begin(), arguments.end(), [&argument](const Entry& entry) {
          return entry.key == argument.key && !entry.value.IsNull();
        });
    if (argument.required && !given) {
      return Error(line, "{} needs its argument `{}`", layer->class_name(), argument.key);
    }
  }
  if (functional && (*layer_class)->min_inputs > 0 && layer->inputs().empty()) {
    return Error(line, "{} needs its `inputs`: the names of layers above", layer->class_name());
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadArguments(const std::vector<Entry>& entries, const std::string& path,
                                      const LayerClass& layer_class, bool functional,
                                      v1::LayerSpec* layer) {
  for (const Entry& entry : entries) {
    const std::string key_path = JoinPath(path, entry.key);
    Note(key_path, entry.line);
    if (entry.key == "name") {
      if (entry.value.IsNull()) continue;
      COHORT_ASSIGN_OR_RETURN(*layer->mutable_name(), Text(entry.value, "name"));
      continue;
    }
    if (entry.key == "inputs" && layer_class.min_inputs > 0) {
      COHORT_RETURN_IF_ERROR(ReadInputs(entry, key_path, functional, layer));
      continue;
    }
    const auto& known = layer_class.arguments;
    const auto it = std::find_if(known.begin(), known.end(),
                                 [&entry](const LayerArgument& a) { return a.key == entry.key; });
    if (it == known.end()) {
      std::vector<std::string> keys;
      for (const LayerArgument& argument : known) keys.emplace_back(argument.key);
      keys.emplace_back("name");
      if (layer_class.min_inputs > 0) keys.emplace_back("inputs");
      return UnknownKey(entry.line, entry.key, fmt::format("`{}`", layer_class.name), keys);
    }
    if (entry.key == "use_bias") {
      if (entry.value.IsNull()) continue;
      COHORT_ASSIGN_OR_RETURN(const bool use_bias, Boolean(entry.value, "use_bias"));
      layer->set_no_bias(!use_bias);
      continue;
    }
    const Field* field = layer->GetDescriptor()->FindFieldByName(std::string(it->field));
    COHORT_RETURN_IF_ERROR(ReadField(entry, key_path, field, layer));
    if (entry.key == "activation") {
      COHORT_RETURN_IF_ERROR(AtLine(entry.line, CheckActivation(layer->activation())));
    }
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadInputs(const Entry& entry, const std::string& path, bool functional,
                                   v1::LayerSpec* layer) {
  if (!functional) {
    return Error(entry.line,
                 "the input of a layer of a sequential model is the layer before it; `inputs` is "
                 "for functional models");
  }
  if (entry.value.IsScalar()) {
    layer->add_inputs(entry.value.Scalar());
    return absl::OkStatus();
  }
  return ReadField(entry, path, layer->GetDescriptor()->FindFieldByName("inputs"), layer);
}

absl::Status JobReader::ReadCompile(const YAML::Node& node, const std::string& path,
                                    v1::CompileSpec* compile) {
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, "`compile`"));
  for (const Entry& entry : entries) {
    if (entry.key == "loss" && entry.value.IsMap()) {
      COHORT_RETURN_IF_ERROR(ReadLoss(entry, JoinPath(path, "loss"), compile));
    } else {
      COHORT_RETURN_IF_ERROR(ReadEntries({entry}, path, compile));
    }
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadLoss(const Entry& entry, const std::string& path,
                                 v1::CompileSpec* compile) {
  Note(path, entry.line);
  COHORT_ASSIGN_OR_RETURN(const Class loss, ReadClass(entry.value, path));
  compile->set_loss(loss.name);
  for (const Entry& argument : loss.config) {
    if (argument.key != "from_logits") {
      return UnknownKey(argument.line, argument.key, fmt::format("`{}`", loss.name),
                        {"from_logits"});
    }
    if (argument.value.IsNull()) continue;
    COHORT_ASSIGN_OR_RETURN(const bool value, Boolean(argument.value, "from_logits"));
    compile->set_from_logits(value);
  }
  return absl::OkStatus();
}

absl::Status JobReader::ReadPartitioner(const YAML::Node& node, const std::string& path,
                                        v1::PartitionerSpec* partitioner) {
  struct Known {
    std::string_view name;
    std::vector<std::string> keys;
  };
  static const std::vector<Known>& known =
      *new std::vector<Known>{{"FixedShards", {"num_shards"}},
                              {"MinSize", {"min_shard_bytes", "max_shards"}},
                              {"MaxSize", {"max_shard_bytes", "max_shards"}}};
  COHORT_ASSIGN_OR_RETURN(const Class c, ReadClass(node, path));
  for (const Known& k : known) {
    if (k.name != c.name) continue;
    partitioner->set_class_name(c.name);
    for (const Entry& entry : c.config) {
      if (std::find(k.keys.begin(), k.keys.end(), entry.key) == k.keys.end()) {
        return UnknownKey(entry.line, entry.key, fmt::format("`{}`", c.name), k.keys);
      }
    }
    return ReadEntries(c.config, path, partitioner);
  }
  return Error(LineOf(node),
               "there is no partitioner \"{}\"; there are FixedShards, MinSize, MaxSize", c.name);
}

absl::StatusOr<JobReader::Class> JobReader::ReadClass(const YAML::Node& node,
                                                      const std::string& path) {
  Class result;
  if (node.IsScalar()) {
    result.name = node.Scalar();
    return result;
  }
  const std::string what = fmt::format("`{}`", path);
  COHORT_ASSIGN_OR_RETURN(const auto entries, Entries(node, what));
  const bool by_class_name = std::any_of(
      entries.begin(), entries.end(), [](const Entry& entry) { return entry.key == "class_name"; });
  if (!by_class_name) {
    if (entries.size() != 1) {
      return Error(LineOf(node), "{} is a name, or one name with its arguments below it", what);
    }
    result.name = entries[0].key;
    if (entries[0].value.IsNull()) return result;
    COHORT_ASSIGN_OR_RETURN(result.config,
                            Entries(entries[0].value, fmt::format("`{}`", result.name)));
    return result;
  }
  for (const Entry& entry : entries) {
    if (entry.key == "class_name") {
      COHORT_ASSIGN_OR_RETURN(result.name, Text(entry.value, path + ".class_name"));
    } else if (entry.key == "config") {
      if (entry.value.IsNull()) continue;
      COHORT_ASSIGN_OR_RETURN(result.config,
                              Entries(entry.value, fmt::format("`{}.config`", path)));
    } else if (entry.key == "sparse_update") {
      COHORT_ASSIGN_OR_RETURN(result.sparse_update, Text(entry.value, path + ".sparse_update"));
    } else {
      return UnknownKey(entry.line, entry.key, what, {"class_name", "config"});
    }
  }
  return result;
}

template <typename Config>
absl::Status JobReader::ReadConfig(const YAML::Node& node, const std::string& path, FindClass find,
                                   Config* config) {
  COHORT_ASSIGN_OR_RETURN(Class c, ReadClass(node, path));
  const auto known = find(c.name);
  if (!known.ok()) return AtLine(LineOf(node), known.status());
  config->set_class_name(std::string((*known)->name));
  for (const Entry& entry : c.config) {
    if constexpr (std::is_same_v<Config, v1::OptimizerConfig>) {
      if (entry.key == "sparse_update") {
        COHORT_ASSIGN_OR_RETURN(c.sparse_update, Text(entry.value, path + ".sparse_update"));
        continue;
      }
    }
    COHORT_RETURN_IF_ERROR(AtLine(entry.line, (*known)->CheckArgument(entry.key)));
    if (entry.value.IsNull()) continue;
    COHORT_ASSIGN_OR_RETURN((*config->mutable_config())[entry.key],
                            NumberOrBoolean(entry.value, JoinPath(path, entry.key)));
  }
  if constexpr (std::is_same_v<Config, v1::OptimizerConfig>) {
    if (!c.sparse_update.empty()) config->set_sparse_update(c.sparse_update);
  } else if (!c.sparse_update.empty()) {
    return Error(LineOf(node), "`{}` has no sparse_update; only optimizers have it", path);
  }
  return absl::OkStatus();
}

}  // namespace cohort
