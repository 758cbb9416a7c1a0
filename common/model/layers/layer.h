#ifndef COHORT_COMMON_MODEL_LAYERS_LAYER_H_
#define COHORT_COMMON_MODEL_LAYERS_LAYER_H_

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program_builder.h"
#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

namespace v1 {
class VariableSpec;
}

// The value of a layer.
struct LayerOutput {
  LayerOutput() = default;
  // Most layers return a value alone.
  LayerOutput(Expr value, Expr logits = {}, Expr mask = {})
      : value(value), logits(logits), mask(mask) {}
  // Several; at least one.
  explicit LayerOutput(std::vector<LayerOutput> outputs) : LayerOutput(outputs.front()) {
    parts = std::move(outputs);
  }

  Expr value;
  // The input of the sigmoid or softmax that made the value, so that a cross entropy can start from
  // it; Keras keeps it in the same way (`_keras_logits`). No value if the value is neither.
  Expr logits;
  // The steps that count (masks.h): bool, with the first axes of the value. No value: all count.
  Expr mask;
  // All outputs of a layer that has several, such as ops.split; the first one is this one, too.
  // ops.part gives the others.
  std::vector<LayerOutput> parts;
};

// The inputs for building one layer into one program. The first axis of values is the batch.
struct LayerContext {
  ProgramBuilder* builder = nullptr;
  Config config;                    // every argument of the class
  std::string name;                 // as given, or Keras' automatic one
  std::vector<LayerOutput> inputs;  // as many as the class takes; all have values
  // The arguments of Keras' `call` that the inputs are; empty if the class has no LayerClass::call.
  std::vector<std::string> input_names;
  bool mask_is_given = false;  // the mask of input 0 is an argument of the call
  bool training = false;       // dropout is active
  DType floatx = DType::kFloat32;
  uint64_t seed = 0;                                   // the seed of the job
  std::vector<v1::VariableSpec>* variables = nullptr;  // AddVariable appends to it
  // The penalties that regularizers add to the loss, by variable. Null: the program has no loss.
  std::map<std::string, Expr>* penalties = nullptr;
  // It is another call of the layer `name`, whose variables are there already.
  bool is_shared = false;
  // If the class takes keys: those of the rows that all calls of the layer need in a step, and the
  // place of each id of input 0 among them, in the shape of the input.
  Expr keys;
  Expr places;
  // If it is set: what a variable that Weight has read becomes, for a layer around this one.
  std::function<absl::StatusOr<Expr>(std::string_view suffix, Expr read)> on_weight = nullptr;

  // Returns input i as floatx: integers are converted.
  Expr FloatInput(size_t i) const;
  // The input that is this argument of `call`; null if it is not given.
  const LayerOutput* Named(std::string_view argument) const;
  // Declares the variable "name/suffix" of dtype floatx. `initializer` is the argument that has its
  // initializer; if the class has an argument `kernel_constraint` beside `kernel_initializer`, the
  // variable gets it. Errors: those of its initializer and of Constraint::Create; InvalidArgument
  // if another call of the layer needs other dims. `fans`: the numbers of inputs and outputs by
  // which initializers scale; empty: those of `dims`.
  absl::StatusOr<ValueType> AddVariable(std::string_view suffix, std::vector<int64_t> dims,
                                        std::string_view initializer, bool row_reads,
                                        std::vector<int64_t> fans = {});
  // "name/suffix", or "name" for an empty suffix.
  std::string VariableName(std::string_view suffix) const;
  // Declares a variable that no optimizer changes; the layer reads and pushes it itself. The same
  // errors.
  absl::StatusOr<ValueType> AddState(std::string_view suffix, std::vector<int64_t> dims,
                                     const v1::ClassConfig& initializer);
  // False if the variables of the layer stay as they are.
  bool trainable() const { return config.Bool("trainable"); }
  // Declares the variable and reads it whole. If the class has an argument `kernel_regularizer`
  // beside the initializer `kernel_initializer`, it applies to a trainable variable.
  absl::StatusOr<Expr> Weight(std::string_view suffix, std::vector<int64_t> dims,
                              std::string_view initializer, std::vector<int64_t> fans = {});

  // The same with an initializer that is no argument, and without a regularizer.
  absl::StatusOr<Expr> WeightOf(std::string_view suffix, std::vector<int64_t> dims,
                                const v1::ClassConfig& initializer);

  // The context of a layer that is an argument of this one, without inputs: its variables are
  // "name/inner/kernel". `config` must live as long as the context.
  LayerContext Inner(const v1::ClassConfig& config, std::string_view inner) const;

 private:
  absl::StatusOr<ValueType> Declare(std::string_view suffix, std::vector<int64_t> dims,
                                    const v1::ClassConfig& initializer, std::string_view argument,
                                    bool row_reads, std::vector<int64_t> fans = {});
};

// The mask of a layer's output (`supports_masking` and `compute_mask` in Keras). A layer that uses
// masks finds them in LayerContext::inputs.
enum class MaskRule {
  kDrop,   // none
  kPass,   // that of its first input
  kMerge,  // the steps that any of its inputs has
  kOwn,    // `build` sets it
};

// A Keras layer: its arguments, and the function that builds its ops. Each has a file of its own,
// with the line of layer_list.h that names it.
struct LayerClass {
  ClassSchema schema;  // `name` and `inputs` are keys of every layer, and no arguments
  size_t min_inputs = 1;
  size_t max_inputs = 1;
  // The input has keys of rows, which a step must know before it pulls anything. So it must not
  // depend on weights.
  bool takes_keys = false;
  // Its table has no bounds: keys are any numbers, and `keys` are their rows.
  bool unbounded = false;
  // It runs where the data is read, and its input is an Input (common/model/input_layers.h).
  bool on_data = false;
  MaskRule mask = MaskRule::kDrop;
  // The arguments of Keras' `call` that are tensors, in their order. Inputs are these, without
  // those that the config has as numbers; the argument `input_names` of a layer that has it names
  // them. Empty: the first argument takes all inputs. If there may be more inputs, the last
  // argument is a list.
  std::vector<std::string> call = {};
  // The arguments of the class that are others of `call`: each call of a layer may have its own.
  std::vector<std::string> call_arguments = {};
  bool several_outputs = false;  // `build` sets LayerOutput::parts
  // Keras removes the masks of its inputs: layers that are called later find none.
  bool removes_masks = false;
  // None for Input, which the model builder makes itself. Errors: InvalidArgument; the builder
  // keeps errors of ops.
  std::function<absl::StatusOr<LayerOutput>(LayerContext* context)> build;

  // Error: InvalidArgument if the schema was not made by LayerSchema, or if there is no `build`.
  absl::Status CheckClass() const;
};

inline constexpr size_t kAnyNumberOfInputs = size_t{1} << 16;

// All layers. Names are exact, as in Keras.
ClassRegistry<LayerClass>& Layers();

// The functions of keras.ops as layers without variables (common/model/operations): "ops.mean".
inline constexpr std::string_view kOperationPrefix = "ops.";
// The function whose value is its first input in training, and its second one otherwise. The
// programs of a mode have the chosen input alone (GraphOfMode).
inline constexpr std::string_view kInTraining = "ops.in_training";
ClassRegistry<LayerClass>& Operations();
// Returns Operations() for the name of one of them, else Layers().
ClassRegistry<LayerClass>& LayersFor(std::string_view name);

// Names of inputs of a layer that takes several, for which inputs in the order of `call` leave one
// out: `input_names: [query, value, attention_mask]`.
Argument InputNamesArgument();

// Gives a batch the shape and dtype that the Input `config` declares: [batch] counts as [batch, 1].
// Keras' default dtype is floatx; integers stay integers, but bytes (pixels) do not. `are_ids`: an
// Embedding reads them, so they are integers, whatever the dtype is. `what` names the batch in
// errors. Errors: InvalidArgument for another shape.
absl::StatusOr<Expr> InputValue(const Config& config, Expr batch, std::string_view what,
                                DType floatx, bool are_ids = false);

// Makes the schema of a layer: its own arguments, and those that Keras gives to every layer.
ClassSchema LayerSchema(std::string_view name, std::string_view doc,
                        std::vector<Argument> arguments);
// An argument that is an initializer; `default_class` as "GlorotUniform".
Argument InitializerArgument(std::string_view name, std::string_view default_class,
                             std::string_view doc);

// An argument that is an activation; `default_class` as "linear", "" for a required argument.
Argument ActivationArgument(std::string_view name, std::string_view default_class,
                            std::string_view doc);

// Returns the `dims` with which Reshape keeps these axes: -1 for a bounded one.
std::vector<int64_t> ReshapeDims(std::span<const Dim> dims);
// Returns the product of all axes but the first.
int64_t ElementsPerRecord(const ValueType& type);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_LAYER_H_
