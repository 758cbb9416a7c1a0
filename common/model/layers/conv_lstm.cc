// ConvLSTM1D, ConvLSTM2D, ConvLSTM3D (keras/src/layers/rnn/conv_lstm.py): LSTM with convolutions in
// place of products, step by step.
#include "common/model/activations.h"
#include "common/model/layers/recurrence.h"
#include "common/model/layers/spatial.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

constexpr int64_t kConvGates = 4;  // input, forget, candidate, output

// Keras convolves states without strides and dilation, so that their size stays.
v1::ClassConfig ConvolutionOfStates(const Config& cell) {
  const v1::ConfigValue one = ConfigOf(std::vector<int64_t>{1});
  return ClassOf("ConvLSTM", {{"kernel_size", cell.Value("kernel_size")},
                              {"strides", one},
                              {"dilation_rate", one},
                              {"padding", ConfigOf(std::string_view("same"))}});
}

class ConvLstmCell : public Cell {
 public:
  ConvLstmCell(const LayerContext& context, size_t rank)
      : context_(context),
        of_states_(ConvolutionOfStates(context.config)),
        rank_(rank),
        filters_(context.config.Int("filters")) {}

  static absl::StatusOr<std::unique_ptr<Cell>> Make(const LayerContext& layer, size_t rank,
                                                    int64_t channels) {
    auto cell = std::make_unique<ConvLstmCell>(InCell(layer, "conv_lstm_cell"), rank);
    COHORT_RETURN_IF_ERROR(cell->Declare(channels));
    return cell;
  }

  std::vector<Dims> state_shapes() const override { return {shape_, shape_}; }

  absl::StatusOr<Expr> Project(Expr x) override {
    const ValueType type = x.type();
    COHORT_ASSIGN_OR_RETURN(
        Expr y,
        PerGate(x, Masks("dropout", Slice(x, 1, 0, 1)), kernel_, [&](Expr masked, Expr kernel) {
          return Convolve(context_.config, rank_, StepsAsRecords(masked), kernel);
        }));
    if (!y.valid()) return y;
    if (bias_.valid()) y = y + bias_;
    std::vector<int64_t> dims = ReshapeDims(y.type().dims);
    shape_ = Dims(dims.begin() + 1, dims.end());
    shape_.back() = filters_;
    dims[0] = type.dims[1].size;
    dims.insert(dims.begin(), ReshapeDims(type.dims)[0]);
    return Reshape(y, std::move(dims));
  }

  absl::StatusOr<Expr> Step(Expr projected, std::span<Expr> states) override {
    if (!has_state_masks_) {
      state_masks_ = Masks("recurrent_dropout", states[0]);
      has_state_masks_ = true;
    }
    COHORT_ASSIGN_OR_RETURN(
        const Expr product,
        PerGate(states[0], state_masks_, recurrent_kernel_, [&](Expr state, Expr kernel) {
          return Convolve(Config(of_states_), rank_, state, kernel);
        }));
    const Expr all = projected + product;
    COHORT_ASSIGN_OR_RETURN(const Expr i, Gate("recurrent_activation", all, 0));
    COHORT_ASSIGN_OR_RETURN(const Expr f, Gate("recurrent_activation", all, 1));
    COHORT_ASSIGN_OR_RETURN(const Expr candidate, Gate("activation", all, 2));
    COHORT_ASSIGN_OR_RETURN(const Expr o, Gate("recurrent_activation", all, 3));
    states[1] = f * states[1] + i * candidate;
    COHORT_ASSIGN_OR_RETURN(const LayerOutput shown,
                            Activate(context_.config.Object("activation"), states[1]));
    return states[0] = o * shown.value;
  }

 private:
  absl::Status Declare(int64_t channels) {
    COHORT_ASSIGN_OR_RETURN(Dims dims, SpatialSizes(context_.config, "kernel_size", rank_));
    dims.insert(dims.end(), {channels, kConvGates * filters_});
    COHORT_ASSIGN_OR_RETURN(kernel_, context_.Weight("kernel", dims, "kernel_initializer"));
    dims[rank_] = filters_;
    COHORT_ASSIGN_OR_RETURN(recurrent_kernel_,
                            context_.Weight("recurrent_kernel", dims, "recurrent_initializer"));
    if (!context_.config.Bool("use_bias")) return absl::OkStatus();
    COHORT_ASSIGN_OR_RETURN(bias_,
                            context_.Weight("bias", {kConvGates * filters_}, "bias_initializer"));
    return OpenForgetGates(&context_, filters_);
  }

  // x [batch, steps, ...] with the steps as further records.
  static Expr StepsAsRecords(Expr x) {
    if (!x.valid()) return x;
    std::vector<int64_t> dims = ReshapeDims(x.type().dims);
    const int64_t steps = dims[1], records = dims[0];
    dims.erase(dims.begin());
    dims[0] = records < 0 ? -1 : records * steps;
    return Reshape(x, std::move(dims));
  }

  // Dropout's factors of each gate; empty: none. Keras drops nothing at a rate of 1.
  std::vector<Expr> Masks(std::string_view rate_argument, Expr like) const {
    const double rate = context_.config.Float(rate_argument);
    std::vector<Expr> masks;
    if (!context_.training || rate == 0 || rate == 1 || !like.valid()) return masks;
    const Expr ones = BroadcastLike(context_.builder->Scalar(1, like.dtype()), like);
    for (int64_t i = 0; i < kConvGates; ++i) {
      masks.push_back(Dropout(ones, rate, context_.config.Int("seed")).first);
    }
    return masks;
  }

  // The convolutions of all gates, side by side; one alone if nothing is dropped.
  template <typename Fn>
  absl::StatusOr<Expr> PerGate(Expr x, const std::vector<Expr>& masks, Expr kernel,
                               const Fn& convolve) const {
    if (masks.empty()) return convolve(x, kernel);
    std::vector<Expr> gates;
    for (int64_t i = 0; i < kConvGates; ++i) {
      COHORT_ASSIGN_OR_RETURN(
          gates.emplace_back(),
          convolve(x * masks[static_cast<size_t>(i)], Slice(kernel, -1, i * filters_, filters_)));
    }
    return Concat(gates, -1);
  }

  absl::StatusOr<Expr> Gate(std::string_view activation, Expr all, int64_t number) const {
    COHORT_ASSIGN_OR_RETURN(
        const LayerOutput y,
        Activate(context_.config.Object(activation), Slice(all, -1, number * filters_, filters_)));
    return y.value;
  }

  LayerContext context_;
  const v1::ClassConfig of_states_;
  const size_t rank_;
  const int64_t filters_;
  Expr kernel_, recurrent_kernel_, bias_;
  Dims shape_;  // the shape of a state of one record
  bool has_state_masks_ = false;
  std::vector<Expr> state_masks_;
};

std::vector<Argument> ConvLstmArguments(size_t rank) {
  const std::vector<int64_t> ones(rank, 1);
  std::vector<Argument> arguments = {
      Int("filters", "Channels of the states and of the output.").AtLeast(1),
      Ints("kernel_size", "Size of a window: one number, or one for each axis.").AtLeast(1),
      Ints("strides", "Distance between two windows of the inputs.").Default(ones).AtLeast(1),
      String("padding", "same: windows may begin before and end after the input.")
          .Default("valid")
          .OneOf({"valid", "same"}),
      DataFormatArgument(),
      Ints("dilation_rate", "Distance between two elements of a window.").Default(ones).AtLeast(1),
  };
  for (Argument& argument : GatedCellArguments(true)) {
    if (argument.name == "units" || argument.name == "implementation") continue;
    arguments.push_back(std::move(argument));
  }
  arguments.push_back(
      Bool("unit_forget_bias", "True: the biases of forget gates begin with 1.").Default(true));
  return arguments;
}

}  // namespace

RecurrentClass ConvLstmClass(size_t rank) {
  const char* of[] = {"sequences", "images", "volumes"};
  return {NestedSchema(fmt::format("ConvLSTM{}D", rank),
                       fmt::format("LSTM with convolutions over steps that are {}.", of[rank - 1]),
                       WithRecurrentArguments(ConvLstmArguments(rank))),
          [rank](const LayerContext& context, int64_t channels) {
            return ConvLstmCell::Make(context, rank, channels);
          },
          /*axes=*/rank + 3};
}

LayerClass ConvLSTM1DLayer() { return RecurrentLayer(ConvLstmClass(1)); }
LayerClass ConvLSTM2DLayer() { return RecurrentLayer(ConvLstmClass(2)); }
LayerClass ConvLSTM3DLayer() { return RecurrentLayer(ConvLstmClass(3)); }

}  // namespace cohort
