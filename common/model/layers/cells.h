#ifndef COHORT_COMMON_MODEL_LAYERS_CELLS_H_
#define COHORT_COMMON_MODEL_LAYERS_CELLS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {

// The outputs of a cell and its states, at all steps: [batch, steps, ...] each.
struct CellSteps {
  Expr y;
  std::vector<Expr> states;
};

// A cell computes one step of a recurrent layer (keras/src/layers/rnn). It declares its variables
// when it is made.
class Cell {
 public:
  virtual ~Cell() = default;

  // Shapes of the states of one record, known after Project. The output has that of state 0.
  virtual std::vector<Dims> state_shapes() const = 0;
  virtual Dims output_shape() const { return state_shapes()[0]; }
  // Computes what does not depend on states, for all steps at once: x [batch, steps, ...] ->
  // [batch, steps, ..., width].
  virtual absl::StatusOr<Expr> Project(Expr x) = 0;
  // Computes a step from its part of Project, [batch, ..., width]. Replaces the states and returns
  // the output.
  virtual absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) = 0;

  // Returns true if an op of the graph computes all steps: AllSteps then returns the outputs and
  // the states, which are those of the step before where the mask is false.
  virtual bool has_op() const { return false; }
  virtual absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) {
    return Internal("a cell has no op for all steps");
  }
};

// Makes a cell for inputs of these features, the last axis. The context has the arguments of the
// cell, and the prefix of its variables as its name. Its config must live as long as the cell.
using CellMaker = std::function<absl::StatusOr<std::unique_ptr<Cell>>(const LayerContext& context,
                                                                      int64_t features)>;

// A cell as an argument of RNN and StackedRNNCells: its schema has an argument `name`, too.
struct CellClass {
  ClassSchema schema;
  CellMaker make;
};

ClassRegistry<CellClass>& Cells();
const SchemaSet& CellSchemas();

// The schema of a class that is an argument of a layer: as LayerSchema, with the argument `name`,
// and with Keras' `dtype`, which is that of the layer.
ClassSchema NestedSchema(std::string_view name, std::string_view doc,
                         std::vector<Argument> arguments);

// The context of a part of a layer: with the part's arguments, whose variables have the prefix
// "layer/name". The variables of the part are frozen if the layer is.
struct NestedContext {
  NestedContext(const LayerContext& outer, const v1::ClassConfig& given, std::string_view name);
  NestedContext(const NestedContext&) = delete;
  NestedContext& operator=(const NestedContext&) = delete;

  const v1::ClassConfig config;
  LayerContext context;
};

// The context of the cell of a layer whose arguments are those of the cell.
LayerContext InCell(const LayerContext& layer, std::string_view cell);

// The given name of a part, or that which Keras gives to the first one of its class: "lstm_cell".
std::string NestedName(const v1::ClassConfig& config);

// What SimpleRNN, LSTM and GRU share: a kernel of the inputs and one of the states for `gates`
// times `units` numbers, with biases, dropout and activations.
class GatedCell : public Cell {
 public:
  std::vector<Dims> state_shapes() const override { return {{units_}}; }
  absl::StatusOr<Expr> Project(Expr x) override;

 protected:
  GatedCell(const LayerContext& context, int64_t gates)
      : context_(context), units_(context.config.Int("units")), gates_(gates) {}

  // Declares kernel, recurrent_kernel and, of these dims, the bias.
  absl::Status Declare(int64_t features, std::vector<int64_t> bias);
  // The bias of the inputs; no value: none.
  virtual Expr InputBias() const { return bias_; }
  // Keras drops nothing at a rate of 1, but SimpleRNN drops all.
  virtual bool drops_all() const { return false; }
  // The masks of dropout for inputs or states like `like`, one per gate or one for all. Empty:
  // none.
  std::vector<Expr> Masks(std::string_view rate, Expr like) const;

  // The products of a state and the recurrent kernel for the gates [begin, end).
  Expr StateProduct(Expr state, int64_t begin, int64_t end);
  // Gate `number` of [batch, gates units].
  Expr Gate(Expr all, int64_t number) const;
  absl::StatusOr<Expr> ActivationOf(std::string_view argument, Expr x) const;
  bool HasActivation(std::string_view argument, std::string_view name) const;
  bool drops_states() const;

  LayerContext context_;
  const int64_t units_, gates_;
  Expr kernel_, recurrent_kernel_, bias_;

 private:
  bool masks_per_gate() const;

  // A call has the same masks at all steps.
  bool has_input_masks_ = false, has_state_masks_ = false;
  std::vector<Expr> input_masks_, state_masks_;
};

// unit_forget_bias of LSTM: the forget gates of the bias, which was declared last, begin with 1.
// Error: InvalidArgument for a bias_initializer that has no such form.
absl::Status OpenForgetGates(LayerContext* context, int64_t units);

// The arguments of a cell with such variables; `gates`: it has a recurrent_activation.
std::vector<Argument> GatedCellArguments(bool gates);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_CELLS_H_
