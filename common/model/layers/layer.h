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
  // What the value is a sigmoid or softmax of, so that a cross entropy can start from there; Keras
  // carries it along in the same way (`_keras_logits`). No value where it is neither.
  Expr logits;
};

// What building one layer into one program sees. Dims of values begin with the batch.
struct LayerContext {
  ProgramBuilder* builder = nullptr;
  const v1::LayerSpec* spec = nullptr;
  std::string name;                 // as given, or Keras' automatic one
  std::vector<LayerOutput> inputs;  // as many as the class takes
  bool training = false;            // dropout is at work
  DType floatx = DType::kFloat32;
  uint64_t seed = 0;                                   // of the job
  std::vector<v1::VariableSpec>* variables = nullptr;  // what AddVariable makes, in order

  // Input i as floatx: integers are converted.
  Expr FloatInput(size_t i) const;
  // Declares the variable "name/suffix" of dtype floatx. Errors: of its initializer.
  absl::StatusOr<ValueType> AddVariable(std::string_view suffix, std::vector<int64_t> dims,
                                        const v1::InitializerConfig& initializer,
                                        std::string_view fallback, bool row_reads);
  // The same, and reads it whole.
  absl::StatusOr<Expr> Weight(std::string_view suffix, std::vector<int64_t> dims,
                              const v1::InitializerConfig& initializer, std::string_view fallback);
};

struct LayerArgument {
  std::string_view key;    // as in Keras
  std::string_view field;  // of LayerSpec
  bool required = false;
};

// A Keras layer: its arguments and how it becomes ops.
struct LayerClass {
  std::string_view name;
  std::vector<LayerArgument> arguments;  // besides `name` and `inputs`
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  // Null of Input, which the model builder makes itself. Errors: InvalidArgument; errors of ops
  // stay in the builder.
  absl::StatusOr<LayerOutput> (*build)(LayerContext* context) = nullptr;
};

// In alphabetical order.
std::span<const LayerClass> AllLayers();
// Errors: InvalidArgument that lists what there is.
absl::StatusOr<const LayerClass*> FindLayer(std::string_view class_name);

// Applies relu, sigmoid, tanh, softmax, or linear (also ""). Errors: InvalidArgument that lists
// them.
absl::StatusOr<LayerOutput> Activate(std::string_view activation, LayerOutput x);
absl::Status CheckActivation(std::string_view activation);

// The `dims` that Reshape takes to keep these axes: -1 for a bounded one.
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
