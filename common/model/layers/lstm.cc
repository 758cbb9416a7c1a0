// LSTM and LSTMCell (keras/src/layers/rnn/lstm.py).
#include "common/model/layers/recurrence.h"

namespace cohort {
namespace {

constexpr int64_t kLstmGates = 4;  // input, forget, candidate, output

class LstmOfKeras : public GatedCell {
 public:
  explicit LstmOfKeras(const LayerContext& context) : GatedCell(context, kLstmGates) {}

  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& context, int64_t features) {
    auto cell = std::make_unique<LstmOfKeras>(context);
    COHORT_RETURN_IF_ERROR(cell->Declare(features, {kLstmGates * cell->units_}));
    COHORT_RETURN_IF_ERROR(OpenForgetGates(&cell->context_, cell->units_));
    return cell;
  }

  std::vector<Dims> state_shapes() const override { return {{units_}, {units_}}; }

  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    const Expr all = projected + StateProduct(states[0], 0, kLstmGates);
    COHORT_ASSIGN_OR_RETURN(const Expr i, ActivationOf("recurrent_activation", Gate(all, 0)));
    COHORT_ASSIGN_OR_RETURN(const Expr f, ActivationOf("recurrent_activation", Gate(all, 1)));
    COHORT_ASSIGN_OR_RETURN(const Expr candidate, ActivationOf("activation", Gate(all, 2)));
    COHORT_ASSIGN_OR_RETURN(const Expr o, ActivationOf("recurrent_activation", Gate(all, 3)));
    states[1] = f * states[1] + i * candidate;
    COHORT_ASSIGN_OR_RETURN(const Expr shown, ActivationOf("activation", states[1]));
    return states[0] = o * shown;
  }

  bool has_op() const override {
    return HasActivation("activation", "tanh") &&
           HasActivation("recurrent_activation", "sigmoid") && !drops_states();
  }
  absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) override {
    const auto [h, c] = Lstm(projected, recurrent_kernel_, options);
    return CellSteps{h, {h, c}};
  }
};

std::vector<Argument> LstmArguments() {
  std::vector<Argument> arguments = GatedCellArguments(true);
  arguments.push_back(
      Bool("unit_forget_bias", "True: the biases of forget gates begin with 1.").Default(true));
  return arguments;
}

}  // namespace

CellClass LstmCell() {
  return {NestedSchema("LSTMCell", "One step of LSTM.", LstmArguments()), LstmOfKeras::Make};
}

RecurrentClass LstmClass() {
  return {NestedSchema("LSTM", "Long short-term memory over the steps of [batch, steps, features].",
                       WithRecurrentArguments(LstmArguments())),
          [](const LayerContext& context, int64_t features) {
            return LstmOfKeras::Make(InCell(context, "lstm_cell"), features);
          }};
}

LayerClass LSTMLayer() { return RecurrentLayer(LstmClass()); }

}  // namespace cohort
