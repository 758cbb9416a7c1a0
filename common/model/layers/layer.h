#ifndef COHORT_COMMON_MODEL_LAYERS_LAYER_H_
#define COHORT_COMMON_MODEL_LAYERS_LAYER_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program_builder.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// The value of a layer.
struct LayerOutput {
  Expr value;
  // The input of the sigmoid or softmax that made the value, so that a cross entropy can start from
  // it; Keras keeps it in the same way (`_keras_logits`). No value if the value is neither.
  Expr logits;
};

// The inputs for building one layer into one program. The first axis of values is the batch.
struct LayerContext {
  ProgramBuilder* builder = nullptr;
  const v1::LayerSpec* spec = nullptr;
  std::string name;                 // as given, or Keras' automatic one
  std::vector<LayerOutput> inputs;  // as many as the class takes
  bool training = false;            // dropout is active
  DType floatx = DType::kFloat32;
  uint64_t seed = 0;                                   // the seed of the job
  std::vector<v1::VariableSpec>* variables = nullptr;  // AddVariable appends to it

  // Returns input i as floatx: integers are converted.
  Expr FloatInput(size_t i) const;
  // Declares the variable "name/suffix" of dtype floatx. Errors: those of its initializer.
  absl::StatusOr<ValueType> AddVariable(std::string_view suffix, std::vector<int64_t> dims,
                                        const v1::InitializerConfig& initializer,
                                        std::string_view fallback, bool row_reads);
  // Declares the variable and reads it whole.
  absl::StatusOr<Expr> Weight(std::string_view suffix, std::vector<int64_t> dims,
                              const v1::InitializerConfig& initializer, std::string_view fallback);
};

struct LayerArgument {
  std::string_view key;    // as in Keras
  std::string_view field;  // name in LayerSpec
  bool required = false;
};

// A Keras layer: its arguments, and the function that builds its ops.
struct LayerClass {
  std::string_view name;
  std::vector<LayerArgument> arguments;  // besides `name` and `inputs`
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  // Null for Input, which the model builder makes itself. Errors: InvalidArgument; the builder
  // keeps errors of ops.
  absl::StatusOr<LayerOutput> (*build)(LayerContext* context) = nullptr;
};

// Returns all layers in alphabetical order.
std::span<const LayerClass> AllLayers();
// Errors: InvalidArgument that lists the known layers.
absl::StatusOr<const LayerClass*> FindLayer(std::string_view class_name);

// Applies relu, sigmoid, tanh, softmax, or linear (also ""). Errors: InvalidArgument that lists
// these names.
absl::StatusOr<LayerOutput> Activate(std::string_view activation, LayerOutput x);
absl::Status CheckActivation(std::string_view activation);

// Returns the `dims` with which Reshape keeps these axes: -1 for a bounded one.
std::vector<int64_t> ReshapeDims(std::span<const Dim> dims);

// The classes, by file.
absl::StatusOr<LayerOutput> BuildActivation(LayerContext* context);
absl::StatusOr<LayerOutput> BuildConcatenate(LayerContext* context);
absl::StatusOr<LayerOutput> BuildDense(LayerContext* context);
absl::StatusOr<LayerOutput> BuildDropout(LayerContext* context);
absl::StatusOr<LayerOutput> BuildEmbedding(LayerContext* context);
absl::StatusOr<LayerOutput> BuildFlatten(LayerContext* context);
absl::StatusOr<LayerOutput> BuildGlobalAveragePooling1D(LayerContext* context);
absl::StatusOr<LayerOutput> BuildReshape(LayerContext* context);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_LAYER_H_
