// SimpleRNN and SimpleRNNCell (keras/src/layers/rnn/simple_rnn.py).
#include "common/model/layers/recurrence.h"

namespace cohort {
namespace {

class SimpleRnnOfKeras : public GatedCell {
 public:
  explicit SimpleRnnOfKeras(const LayerContext& context) : GatedCell(context, 1) {}

  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& context, int64_t features) {
    auto cell = std::make_unique<SimpleRnnOfKeras>(context);
    COHORT_RETURN_IF_ERROR(cell->Declare(features, {cell->units_}));
    return cell;
  }

  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    COHORT_ASSIGN_OR_RETURN(states[0],
                            ActivationOf("activation", projected + StateProduct(states[0], 0, 1)));
    return states[0];
  }

  bool has_op() const override { return HasActivation("activation", "tanh") && !drops_states(); }
  absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) override {
    const Expr h = SimpleRnn(projected, recurrent_kernel_, options);
    return CellSteps{h, {h}};
  }

 protected:
  bool drops_all() const override { return true; }
};

}  // namespace

CellClass SimpleRnnCell() {
  return {NestedSchema("SimpleRNNCell", "One step of SimpleRNN.", GatedCellArguments(false)),
          SimpleRnnOfKeras::Make};
}

RecurrentClass SimpleRnnClass() {
  return {NestedSchema("SimpleRNN",
                       "activation(x kernel + h recurrent_kernel + bias) over the steps of "
                       "[batch, steps, features], with the output h of the step before.",
                       WithRecurrentArguments(GatedCellArguments(false))),
          [](const LayerContext& context, int64_t features) {
            return SimpleRnnOfKeras::Make(InCell(context, "simple_rnn_cell"), features);
          }};
}

LayerClass SimpleRNNLayer() { return RecurrentLayer(SimpleRnnClass()); }

}  // namespace cohort
