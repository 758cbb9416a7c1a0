#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace cohort {

// A reference to a tensor in the JSON of a functional model: ["dense", 0, 0].
struct KerasReference {
  std::string layer;
  int64_t call = 0;
  int64_t output = 0;
  std::string key;  // in a mapping of inputs or outputs; else ""
};

// Reads one item of `inbound_nodes`, the tensors on which a layer was called: of Keras 3
// {"args": [{"class_name": "__keras_tensor__", ...}], "kwargs": {}}, of Keras 2
// [["dense", 0, 0, {}]]. Errors: InvalidArgument; Unimplemented for further arguments of the call.
absl::StatusOr<std::vector<KerasReference>> ReadKerasCall(const nlohmann::json& node);

// Reads `input_layers` or `output_layers`: one reference, a list or a mapping of them. A mapping is
// in the order of its keys, as in Keras. Errors: InvalidArgument.
absl::StatusOr<std::vector<KerasReference>> ReadKerasEnds(const nlohmann::json& ends);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_CALLS_H_
