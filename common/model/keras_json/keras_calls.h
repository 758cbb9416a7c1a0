#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/model/layers/layer.h"

namespace cohort {

// A reference to a tensor in the JSON of a functional model: ["dense", 0, 0].
struct KerasReference {
  std::string layer;
  int64_t call = 0;
  int64_t output = 0;
  std::string key;  // in a mapping of inputs or outputs; else ""
};

// An input of a call: a tensor of the model, or a constant that the file has (the config of
// ops.array).
struct KerasInput {
  KerasReference reference;
  std::shared_ptr<const v1::ClassConfig> constant;
  std::string name;  // the argument that it is, if the layer's class has LayerClass::call
};

// One call of a layer.
struct KerasCall {
  std::vector<KerasInput> inputs;                    // in the order of LayerClass::call
  std::vector<std::optional<KerasReference>> masks;  // by input
  std::map<std::string, v1::ConfigValue> arguments;  // those that are no tensors
};

// Reads one item of `inbound_nodes`: of Keras 3 {"args": [{"class_name": "__keras_tensor__", ...}],
// "kwargs": {}}, of Keras 2 [["dense", 0, 0, {}]]. `layer_class` is null for a nested model.
// Errors: InvalidArgument; Unimplemented for arguments that the layer does not take.
absl::StatusOr<KerasCall> ReadKerasCall(const nlohmann::json& node, const LayerClass* layer_class);

// Reads `input_layers` or `output_layers`: one reference, a list or a mapping of them. A mapping is
// in the order of its keys, as in Keras. Errors: InvalidArgument.
absl::StatusOr<std::vector<KerasReference>> ReadKerasEnds(const nlohmann::json& ends);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_
