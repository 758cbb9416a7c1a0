#include "common/model/keras_json/keras_flatten.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "common/base/status.h"

namespace cohort {
namespace {

// More calls than a model has. Nested models that are shared multiply: without a limit, a small
// file could make many.
constexpr size_t kMaxCalls = 50'000;

// One call of a layer, in the flat model.
struct Call {
  const KerasLayer* layer = nullptr;  // null: an array or a part, which Keras has no layer for
  std::string name;                   // with the names of the models around it
  bool trainable = true;              // the models around it are
  std::vector<size_t> inputs;         // earlier calls
  std::vector<std::optional<size_t>> masks;  // by input
  const KerasLayerCall* call = nullptr;      // null if `layer` is
  std::string class_name;                    // if `layer` is null
  v1::ClassConfig config;                    // if `layer` is null
};

using CallNumber = std::pair<size_t, size_t>;  // layer, call

bool IsInteger(const KerasLayer& input) {
  return Config(input.config).String("dtype").starts_with("int");
}

// The calls of the layers of one model, each after those on whose outputs it works. Independent
// ones are in the order of the layers.
absl::StatusOr<std::vector<CallNumber>> Order(const KerasModel& model) {
  std::map<CallNumber, size_t> missing;  // inputs that come later
  std::map<CallNumber, std::vector<CallNumber>> users;
  std::priority_queue<CallNumber, std::vector<CallNumber>, std::greater<>> ready;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (size_t c = 0; c < model.layers[i].calls.size(); ++c) {
      size_t needed = 0;
      const auto add = [&](const KerasTensor& tensor) {
        if (tensor.constant != nullptr) return;
        users[{tensor.layer, tensor.call}].push_back({i, c});
        ++needed;
      };
      const KerasLayerCall& call = model.layers[i].calls[c];
      for (const KerasTensor& input : call.inputs) add(input);
      for (const auto& mask : call.masks) {
        if (mask) add(*mask);
      }
      if (needed == 0) {
        ready.push({i, c});
      } else {
        missing[{i, c}] = needed;
      }
    }
  }
  std::vector<CallNumber> order;
  while (!ready.empty()) {
    const CallNumber call = ready.top();
    ready.pop();
    order.push_back(call);
    for (const CallNumber& user : users[call]) {
      const auto it = missing.find(user);
      if (--it->second > 0) continue;
      missing.erase(it);
      ready.push(user);
    }
  }
  if (missing.empty()) return order;
  return InvalidArgument("{}: its input depends on its output",
                         model.layers[missing.begin()->first.first].where);
}

class Flattener {
 public:
  // Adds the calls of the layers of a model, whose inputs are the calls `inputs` (the model that
  // none is around has none), and returns those of its outputs. `path` is "" or "inner/".
  absl::StatusOr<std::vector<size_t>> Add(const KerasModel& model,
                                          const std::vector<size_t>* inputs,
                                          const std::string& path, bool trainable) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<CallNumber> order, Order(model));
    added_ += order.size();
    if (added_ > kMaxCalls) {
      return InvalidArgument(
          "the model has more than {} calls of layers, with those of its nested "
          "models",
          kMaxCalls);
    }
    std::map<CallNumber, std::vector<size_t>> outputs;
    if (inputs != nullptr) {
      for (size_t i = 0; i < model.inputs.size(); ++i) {
        const KerasLayer& input = model.layers[model.inputs[i].layer];
        if (IsInteger(input) && !IsIntegerInput((*inputs)[i])) {
          return Unimplemented(
              "{}: an input of integers that comes from another layer than an "
              "InputLayer of integers is not supported yet",
              input.where);
        }
        outputs[{model.inputs[i].layer, 0}] = {(*inputs)[i]};
      }
    }
    for (const CallNumber& number : order) {
      const KerasLayer& layer = model.layers[number.first];
      if (outputs.contains(number)) continue;
      if (inputs != nullptr && IsInput(layer)) {
        return InvalidArgument("{}: it is no input of the model", layer.where);
      }
      const KerasLayerCall& call = layer.calls[number.second];
      const auto find = [&](const KerasTensor& tensor) {
        return tensor.constant != nullptr
                   ? AddArray(*tensor.constant, path + layer.name)
                   : OutputOf(outputs.at({tensor.layer, tensor.call}), tensor.output);
      };
      std::vector<size_t> arguments;
      std::vector<std::optional<size_t>> masks;
      for (const KerasTensor& tensor : call.inputs) arguments.push_back(find(tensor));
      for (const auto& mask : call.masks) {
        masks.push_back(mask ? std::optional(find(*mask)) : std::nullopt);
      }
      COHORT_ASSIGN_OR_RETURN(outputs[number], AddCall(layer, call, std::move(arguments),
                                                       std::move(masks), path, trainable));
    }
    std::vector<size_t> ends;
    for (const KerasTensor& end : model.outputs) {
      ends.push_back(OutputOf(outputs.at({end.layer, end.call}), end.output));
    }
    return ends;
  }

  const std::vector<Call>& calls() const { return calls_; }

 private:
  // An output of a nested model, or a part of what a layer returned.
  size_t OutputOf(const std::vector<size_t>& outputs, size_t output) {
    if (output < outputs.size()) return outputs[output];
    const auto [it, is_new] = parts_.emplace(std::pair(outputs[0], output), calls_.size());
    if (!is_new) return it->second;
    Call part;
    part.name = fmt::format("{}/part_{}", calls_[outputs[0]].name, ++extra_);
    part.class_name = fmt::format("{}part", kOperationPrefix);
    (*part.config.mutable_config())["index"] = ConfigOf(static_cast<int64_t>(output));
    part.inputs = {outputs[0]};
    calls_.push_back(std::move(part));
    return it->second;
  }

  size_t AddArray(const v1::ClassConfig& config, const std::string& user) {
    Call array;
    array.name = fmt::format("{}/array_{}", user, ++extra_);
    array.class_name = fmt::format("{}array", kOperationPrefix);
    array.config = config;
    calls_.push_back(std::move(array));
    return calls_.size() - 1;
  }

  absl::StatusOr<std::vector<size_t>> AddCall(const KerasLayer& layer, const KerasLayerCall& call,
                                              std::vector<size_t> inputs,
                                              std::vector<std::optional<size_t>> masks,
                                              const std::string& path, bool trainable) {
    if (layer.model != nullptr) {
      if (inputs.size() != layer.model->inputs.size()) {
        return InvalidArgument("{}: it has {} inputs, and is called on {}", layer.where,
                               layer.model->inputs.size(), inputs.size());
      }
      return Add(*layer.model, &inputs, path + layer.name + "/",
                 trainable && layer.model->trainable);
    }
    calls_.push_back(
        {&layer, path + layer.name, trainable, std::move(inputs), std::move(masks), &call, "", {}});
    return std::vector<size_t>{calls_.size() - 1};
  }

  bool IsIntegerInput(size_t call) const {
    const KerasLayer* const layer = calls_[call].layer;
    return layer != nullptr && IsInput(*layer) && IsInteger(*layer);
  }

  std::vector<Call> calls_;
  std::map<std::pair<size_t, size_t>, size_t> parts_;  // by call and output
  size_t extra_ = 0;                                   // arrays and parts
  size_t added_ = 0;  // calls of all models, also those of nested models and inputs
};

// Which calls lead to these.
std::vector<bool> Used(const std::vector<Call>& calls, const std::vector<size_t>& ends) {
  std::vector<bool> used(calls.size(), false);
  for (const size_t end : ends) used[end] = true;
  for (size_t i = calls.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const size_t input : calls[i].inputs) used[input] = true;
    for (const auto& mask : calls[i].masks) {
      if (mask) used[*mask] = true;
    }
  }
  return used;
}

// True for an Input and layers of which each has the output of the one before as its only input.
bool IsChain(const v1::ModelSpec& spec) {
  for (int i = 0; i < spec.layers_size(); ++i) {
    const v1::LayerSpec& layer = spec.layers(i);
    if (!layer.shares().empty() || layer.masks_size() > 0) return false;
    if (layer.inputs_size() != (i == 0 ? 0 : 1)) return false;
    if (i > 0 && layer.inputs(0) != spec.layers(i - 1).name()) return false;
  }
  return true;
}

void SetMasks(const Call& call, const std::vector<std::string>& names, v1::LayerSpec* layer) {
  for (size_t i = 0; i < call.masks.size(); ++i) {
    if (!call.masks[i]) continue;
    while (layer->masks_size() < static_cast<int>(i)) layer->add_masks("");
    layer->add_masks(names[*call.masks[i]]);
  }
}

// True for the first arguments of `call`, of which the last one may be a list.
bool AreFirst(const std::vector<std::string>& names, const std::vector<std::string>& known) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != known[std::min(i, known.size() - 1)]) return false;
  }
  return true;
}

void SetConfig(const Call& call, v1::LayerSpec* layer) {
  const ClassSchema& schema = call.layer->layer_class->schema;
  const v1::ClassConfig& config = call.call->config ? *call.call->config : call.layer->config;
  *layer->mutable_config() = config.config();
  auto* const arguments = layer->mutable_config();
  if (!call.trainable && schema.Find("trainable") != nullptr) {
    (*arguments)["trainable"] = ConfigOf(false);
  }
  // Inputs are the first arguments unless their names are given.
  const std::vector<std::string>& names = call.call->names;
  if (schema.Find("input_names") == nullptr || names.empty()) return;
  const std::vector<std::string>& known = call.layer->layer_class->call;
  if (!AreFirst(names, known)) (*arguments)["input_names"] = ConfigOf(names);
}

// Sets the arguments of a further call that differ from those of the first one. Error:
// Unimplemented for one that is not an argument of calls.
absl::Status SetCallArguments(const Call& first, const Call& call, v1::LayerSpec* layer) {
  v1::LayerSpec before, own;
  SetConfig(first, &before);
  SetConfig(call, &own);
  const auto at = [](const v1::LayerSpec& spec, const std::string& key) {
    const auto it = spec.config().find(key);
    return it == spec.config().end() ? v1::ConfigValue() : it->second;
  };
  const std::vector<std::string>& of_calls = call.layer->layer_class->call_arguments;
  std::set<std::string> keys;
  for (const auto& [key, value] : before.config()) keys.insert(key);
  for (const auto& [key, value] : own.config()) keys.insert(key);
  keys.erase("trainable");
  for (const std::string& key : keys) {
    if (ConfigText(at(before, key)) == ConfigText(at(own, key))) continue;
    if (std::ranges::count(of_calls, key) == 0) {
      return Unimplemented("{}: calls of one layer with different {} are not supported yet",
                           call.layer->where, key);
    }
    (*layer->mutable_config())[key] = at(own, key);
  }
  return absl::OkStatus();
}

// The names of Keras 3, and those of several outputs of one layer as in Keras 2: "inner",
// "inner_1".
void SetOutputNames(const KerasModel& model, v1::ModelSpec* spec) {
  std::map<std::string, int> counts;
  bool differ = false;
  for (int i = 0; i < spec->outputs_size(); ++i) {
    const std::string& name = model.output_names[static_cast<size_t>(i)];
    const int count = counts[name]++;
    spec->add_output_names(count == 0 ? name : fmt::format("{}_{}", name, count));
    differ = differ || spec->output_names(i) != spec->outputs(i);
  }
  if (!differ) spec->clear_output_names();
}

}  // namespace

absl::Status FlattenKerasModel(const KerasModel& model, v1::ModelSpec* spec) {
  Flattener flattener;
  COHORT_ASSIGN_OR_RETURN(const std::vector<size_t> ends,
                          flattener.Add(model, nullptr, "", model.trainable));
  const std::vector<Call>& calls = flattener.calls();
  const std::vector<bool> used = Used(calls, ends);
  std::map<const KerasLayer*, size_t> counts;
  std::map<const KerasLayer*, const Call*> first_calls;
  std::vector<std::string> names(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!used[i]) continue;
    const Call& call = calls[i];
    v1::LayerSpec* const layer = spec->add_layers();
    const size_t count = call.layer == nullptr ? 0 : counts[call.layer]++;
    names[i] = count == 0 ? call.name : fmt::format("{}:{}", call.name, count);
    layer->set_name(names[i]);
    for (const size_t input : call.inputs) layer->add_inputs(names[input]);
    SetMasks(call, names, layer);
    if (call.layer == nullptr) {
      layer->set_class_name(call.class_name);
      *layer->mutable_config() = call.config.config();
      continue;
    }
    layer->set_class_name(call.layer->layer_class->schema.name);
    const Call* const first = first_calls.emplace(call.layer, &call).first->second;
    if (count > 0 && !IsOperation(*call.layer)) {
      COHORT_RETURN_IF_ERROR(SetCallArguments(*first, call, layer));
      layer->set_shares(call.name);
      continue;
    }
    SetConfig(call, layer);
  }
  if (model.is_sequential && IsChain(*spec)) {
    for (v1::LayerSpec& layer : *spec->mutable_layers()) layer.clear_inputs();
    return absl::OkStatus();
  }
  for (const size_t end : ends) spec->add_outputs(names[end]);
  SetOutputNames(model, spec);
  return absl::OkStatus();
}

}  // namespace cohort
