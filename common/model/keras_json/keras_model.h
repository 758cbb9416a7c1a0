#ifndef COHORT_COMMON_MODEL_KERAS_JSON_KERAS_MODEL_H_
#define COHORT_COMMON_MODEL_KERAS_JSON_KERAS_MODEL_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/model/layers/layer.h"
#include "common/schema/model_layer.h"

namespace cohort {

struct KerasModel;

// A tensor of a Keras model: what one call of a layer returned.
struct KerasTensor {
  size_t layer = 0;
  size_t call = 0;
  size_t output = 0;  // nested models and some layers have several
  // The config of ops.array, if it is a constant instead.
  std::shared_ptr<const v1::ClassConfig> constant;
};

// A call of a layer. One without inputs is that of an Input.
struct KerasLayerCall {
  std::vector<KerasTensor> inputs;
  std::vector<std::string> names;                 // the arguments that they are; may be empty
  std::vector<std::optional<KerasTensor>> masks;  // by input; may be empty
  // Complete, if the call has arguments beside tensors; else that of the layer counts.
  std::optional<v1::ClassConfig> config;
};

// A layer of a Keras model, with all of its calls.
struct KerasLayer {
  std::string name;
  std::string where;                        // `layers[3] "conv2d" (Conv2D)`, for errors
  const LayerClass* layer_class = nullptr;  // null: a nested model
  v1::ClassConfig config;  // complete; that of an operation has no call's arguments
  std::unique_ptr<KerasModel> model;
  std::vector<KerasLayerCall> calls;
};

bool IsInput(const KerasLayer& layer);
// A function of keras.ops: each call is a layer of its own.
bool IsOperation(const KerasLayer& layer);

// A model as Keras describes it: the tensors of its inputs and outputs are those of its layers.
struct KerasModel {
  std::string name;
  bool is_sequential = false;
  bool trainable = true;
  std::vector<KerasLayer> layers;
  std::vector<KerasTensor> inputs;
  std::vector<KerasTensor> outputs;
  std::vector<std::string> output_names;  // as many as `outputs`
};

// The layers of a model and of the models in it, in the order of the file.
std::vector<ModelLayer> LayersOf(const KerasModel& model);

// Reads a model from what `model.to_json()` of Keras 3 or of Keras 2 (tf_keras) returned.
class KerasModelReader {
 public:
  // `dtype`: that of all variables, or "": the one that the layers have.
  explicit KerasModelReader(std::string dtype)
      : checks_dtype_(dtype.empty()), dtype_(std::move(dtype)) {}

  // Errors: InvalidArgument, or Unimplemented for what this version lacks; they name the layer and
  // the models around it.
  absl::StatusOr<KerasModel> Read(const nlohmann::json& model);
  // "" if no layer has a dtype.
  const std::string& dtype() const { return dtype_; }

 private:
  absl::StatusOr<KerasModel> ReadModel(const nlohmann::json& model, const std::string& path);
  absl::Status ReadSequential(const nlohmann::json& model, const nlohmann::json& layers,
                              const std::string& path, KerasModel* result);
  absl::Status ReadFunctional(const nlohmann::json& config, const nlohmann::json& layers,
                              const std::string& path, KerasModel* result);
  absl::StatusOr<KerasLayer> ReadLayer(const nlohmann::json& layer, size_t index,
                                       const std::string& path);
  absl::Status ReadConfig(const nlohmann::json& layer, KerasLayer* result);
  absl::Status ReadOperation(const nlohmann::json& layer, KerasLayer* result);
  absl::Status CheckDType(const nlohmann::json& config);

  const bool checks_dtype_;
  bool is_keras_2_ = false;
  std::string dtype_;
  std::set<int64_t> shared_ids_;  // layers have them in files of TensorFlow before 2.13
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_KERAS_JSON_KERAS_MODEL_H_
