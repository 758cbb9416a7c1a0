#include "common/model/keras_json/keras_flatten.h"

#include <map>
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
  const KerasLayer* layer = nullptr;
  std::string name;            // with the names of the models around it
  bool trainable = true;       // the models around it are
  std::vector<size_t> inputs;  // earlier calls
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
      const auto& inputs = model.layers[i].calls[c];
      for (const KerasTensor& input : inputs) users[{input.layer, input.call}].push_back({i, c});
      if (inputs.empty()) {
        ready.push({i, c});
      } else {
        missing[{i, c}] = inputs.size();
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
      std::vector<size_t> arguments;
      for (const KerasTensor& tensor : layer.calls[number.second]) {
        arguments.push_back(outputs.at({tensor.layer, tensor.call})[tensor.output]);
      }
      COHORT_ASSIGN_OR_RETURN(outputs[number],
                              AddCall(layer, std::move(arguments), path, trainable));
    }
    std::vector<size_t> ends;
    for (const KerasTensor& end : model.outputs) {
      ends.push_back(outputs.at({end.layer, end.call})[end.output]);
    }
    return ends;
  }

  const std::vector<Call>& calls() const { return calls_; }

 private:
  absl::StatusOr<std::vector<size_t>> AddCall(const KerasLayer& layer, std::vector<size_t> inputs,
                                              const std::string& path, bool trainable) {
    if (layer.model != nullptr) {
      if (inputs.size() != layer.model->inputs.size()) {
        return InvalidArgument("{}: it has {} inputs, and is called on {}", layer.where,
                               layer.model->inputs.size(), inputs.size());
      }
      return Add(*layer.model, &inputs, path + layer.name + "/",
                 trainable && layer.model->trainable);
    }
    calls_.push_back({&layer, path + layer.name, trainable, std::move(inputs)});
    return std::vector<size_t>{calls_.size() - 1};
  }

  bool IsIntegerInput(size_t call) const {
    return IsInput(*calls_[call].layer) && IsInteger(*calls_[call].layer);
  }

  std::vector<Call> calls_;
  size_t added_ = 0;  // calls of all models, also those of nested models and inputs
};

// Which calls lead to these.
std::vector<bool> Used(const std::vector<Call>& calls, const std::vector<size_t>& ends) {
  std::vector<bool> used(calls.size(), false);
  for (const size_t end : ends) used[end] = true;
  for (size_t i = calls.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const size_t input : calls[i].inputs) used[input] = true;
  }
  return used;
}

// True for an Input and layers of which each has the output of the one before as its only input.
bool IsChain(const v1::ModelSpec& spec) {
  for (int i = 0; i < spec.layers_size(); ++i) {
    const v1::LayerSpec& layer = spec.layers(i);
    if (!layer.shares().empty() || layer.inputs_size() != (i == 0 ? 0 : 1)) return false;
    if (i > 0 && layer.inputs(0) != spec.layers(i - 1).name()) return false;
  }
  return true;
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
  std::vector<std::string> names(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!used[i]) continue;
    const Call& call = calls[i];
    const size_t count = counts[call.layer]++;
    v1::LayerSpec* const layer = spec->add_layers();
    names[i] = count == 0 ? call.name : fmt::format("{}:{}", call.name, count);
    layer->set_name(names[i]);
    layer->set_class_name(call.layer->layer_class->schema.name);
    for (const size_t input : call.inputs) layer->add_inputs(names[input]);
    if (count > 0) {
      layer->set_shares(call.name);
      continue;
    }
    *layer->mutable_config() = call.layer->config.config();
    if (!call.trainable) (*layer->mutable_config())["trainable"] = ConfigOf(false);
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
