// GRU and GRUCell (keras/src/layers/rnn/gru.py).
#include "common/model/layers/recurrence.h"

namespace cohort {
namespace {

constexpr int64_t kGruGates = 3;  // update, reset, candidate

class GruOfKeras : public GatedCell {
 public:
  explicit GruOfKeras(const LayerContext& context) : GatedCell(context, kGruGates) {}

  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& context, int64_t features) {
    auto cell = std::make_unique<GruOfKeras>(context);
    const int64_t width = kGruGates * cell->units_;
    COHORT_RETURN_IF_ERROR(cell->Declare(features, cell->resets_after()
                                                       ? std::vector<int64_t>{2, width}
                                                       : std::vector<int64_t>{width}));
    return cell;
  }

  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    const Expr old = states[0], bias = BiasRow(1);
    const bool after = resets_after();
    Expr product = StateProduct(old, 0, after ? kGruGates : 2);
    if (after && bias.valid()) product = product + bias;
    COHORT_ASSIGN_OR_RETURN(const Expr update, ActivationOf("recurrent_activation",
                                                            Gate(projected, 0) + Gate(product, 0)));
    COHORT_ASSIGN_OR_RETURN(const Expr reset, ActivationOf("recurrent_activation",
                                                           Gate(projected, 1) + Gate(product, 1)));
    const Expr inner = after ? reset * Gate(product, 2) : StateProduct(reset * old, 2, kGruGates);
    COHORT_ASSIGN_OR_RETURN(const Expr candidate,
                            ActivationOf("activation", Gate(projected, 2) + inner));
    return states[0] = update * old + (1.0 - update) * candidate;
  }

  bool has_op() const override {
    return resets_after() && HasActivation("activation", "tanh") &&
           HasActivation("recurrent_activation", "sigmoid") && !drops_states();
  }
  absl::StatusOr<CellSteps> AllSteps(Expr projected, const RecurrenceOptions& options) override {
    Expr bias = BiasRow(1);
    if (!bias.valid()) {
      bias = context_.builder->Constant(Tensor::Zeros(context_.floatx, {kGruGates * units_}));
    }
    const Expr h = Gru(projected, recurrent_kernel_, bias, options);
    return CellSteps{h, {h}};
  }

 protected:
  Expr InputBias() const override { return BiasRow(0); }

 private:
  bool resets_after() const { return context_.config.Bool("reset_after"); }
  // 0: the bias of the inputs; 1: that of the states, which only resets_after() has.
  Expr BiasRow(int64_t row) const {
    if (!bias_.valid()) return {};
    if (!resets_after()) return row == 0 ? bias_ : Expr();
    return Reshape(Slice(bias_, 0, row, 1), {kGruGates * units_});
  }
};

std::vector<Argument> GruArguments() {
  std::vector<Argument> arguments = GatedCellArguments(true);
  arguments.push_back(
      Bool("reset_after",
           "True: the reset gate applies to the product of the state and the kernel.")
          .Default(true));
  return arguments;
}

}  // namespace

CellClass GruCell() {
  return {NestedSchema("GRUCell", "One step of GRU.", GruArguments()), GruOfKeras::Make};
}

RecurrentClass GruClass() {
  return {NestedSchema("GRU", "Gated recurrent units over the steps of [batch, steps, features].",
                       WithRecurrentArguments(GruArguments())),
          [](const LayerContext& context, int64_t features) {
            return GruOfKeras::Make(InCell(context, "gru_cell"), features);
          }};
}

LayerClass GRULayer() { return RecurrentLayer(GruClass()); }

}  // namespace cohort
