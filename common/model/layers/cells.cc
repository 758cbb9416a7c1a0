// What cells share, and their registry.
#include "common/model/layers/cells.h"

#include "common/model/activations.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

CellClass LstmCell();
CellClass GruCell();
CellClass SimpleRnnCell();
CellClass StackedRnnCells();

ClassRegistry<CellClass>& Cells() {
  static auto& cells =
      *new ClassRegistry<CellClass>("cell", SchemaSet::Spelling::kExact, "",
                                    {LstmCell(), GruCell(), SimpleRnnCell(), StackedRnnCells()});
  return cells;
}

const SchemaSet& CellSchemas() { return Cells(); }

ClassSchema NestedSchema(std::string_view name, std::string_view doc,
                         std::vector<Argument> arguments) {
  arguments.push_back(
      String("name", "Part of the names of its variables; none: that of the class.").Optional());
  arguments.push_back(
      String("dtype", "That of the layer around it.").Optional().OneOf({"float32", "float64"}));
  arguments.push_back(Planned("activity_regularizer"));
  return LayerSchema(name, doc, std::move(arguments));
}

namespace {

v1::ClassConfig FrozenIf(bool frozen, const v1::ClassConfig& given) {
  v1::ClassConfig config = given;
  if (frozen) (*config.mutable_config())["trainable"] = ConfigOf(false);
  return config;
}

}  // namespace

NestedContext::NestedContext(const LayerContext& outer, const v1::ClassConfig& given,
                             std::string_view name)
    : config(FrozenIf(!outer.trainable(), given)),
      context{.builder = outer.builder,
              .config = Config(config),
              .name = fmt::format("{}/{}", outer.name, name),
              .inputs = outer.inputs,
              .training = outer.training,
              .floatx = outer.floatx,
              .seed = outer.seed,
              .variables = outer.variables,
              .penalties = outer.penalties,
              .is_shared = outer.is_shared,
              .keys = {},
              .places = {}} {}

LayerContext InCell(const LayerContext& layer, std::string_view cell) {
  LayerContext context = layer;
  context.name = fmt::format("{}/{}", layer.name, cell);
  return context;
}

std::string NestedName(const v1::ClassConfig& config) {
  const Config arguments(config);
  return arguments.Has("name") ? arguments.String("name") : SnakeCase(config.class_name());
}

// ------------------------------------------------------------------ cells with gates

absl::Status GatedCell::Declare(int64_t features, std::vector<int64_t> bias) {
  COHORT_ASSIGN_OR_RETURN(
      kernel_, context_.Weight("kernel", {features, gates_ * units_}, "kernel_initializer"));
  COHORT_ASSIGN_OR_RETURN(
      recurrent_kernel_,
      context_.Weight("recurrent_kernel", {units_, gates_ * units_}, "recurrent_initializer"));
  if (!context_.config.Bool("use_bias")) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(bias_, context_.Weight("bias", std::move(bias), "bias_initializer"));
  return absl::OkStatus();
}

bool GatedCell::masks_per_gate() const {
  return gates_ > 1 && (context_.config.Int("implementation") == 1 ||
                        context_.config.Float("recurrent_dropout") > 0);
}

bool GatedCell::drops_states() const {
  const double rate = context_.config.Float("recurrent_dropout");
  return context_.training && rate > 0 && (rate < 1 || drops_all());
}

std::vector<Expr> GatedCell::Masks(std::string_view rate_argument, Expr like) const {
  const double rate = context_.config.Float(rate_argument);
  if (!context_.training || rate == 0 || (rate == 1 && !drops_all())) return {};
  const auto all = [&](double value) {
    return BroadcastLike(context_.builder->Scalar(value, like.dtype()), like);
  };
  if (rate == 1) return {all(0)};
  std::vector<Expr> masks;
  for (int64_t i = 0; i < (masks_per_gate() ? gates_ : 1); ++i) {
    masks.push_back(Dropout(all(1), rate, context_.config.Int("seed")).first);
  }
  return masks;
}

absl::StatusOr<Expr> GatedCell::Project(Expr x) {
  if (!x.valid()) return Expr();
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  const int64_t features = dims.back();
  if (!has_input_masks_) {
    input_masks_ = Masks("dropout", Slice(x, 1, 0, 1));
    has_input_masks_ = true;
  }
  const auto rows = [features](Expr of) { return Reshape(of, {-1, features}); };
  Expr product;
  if (input_masks_.size() > 1) {
    std::vector<Expr> parts;
    for (int64_t i = 0; i < gates_; ++i) {
      const Expr kept = x * input_masks_[static_cast<size_t>(i)];
      parts.push_back(MatMul(rows(kept), Slice(kernel_, 1, i * units_, units_)));
    }
    product = Concat(parts, 1);
  } else {
    product = MatMul(rows(input_masks_.empty() ? x : x * input_masks_[0]), kernel_);
  }
  const Expr bias = InputBias();
  if (bias.valid()) product = product + bias;
  dims.back() = gates_ * units_;
  return Reshape(product, std::move(dims));
}

Expr GatedCell::StateProduct(Expr state, int64_t begin, int64_t end) {
  if (!has_state_masks_) {
    state_masks_ = Masks("recurrent_dropout", state);
    has_state_masks_ = true;
  }
  const auto kernel = [this](int64_t first, int64_t count) {
    return count == gates_ ? recurrent_kernel_
                           : Slice(recurrent_kernel_, 1, first * units_, count * units_);
  };
  if (state_masks_.size() <= 1) {
    return MatMul(state_masks_.empty() ? state : state * state_masks_[0],
                  kernel(begin, end - begin));
  }
  std::vector<Expr> parts;
  for (int64_t i = begin; i < end; ++i) {
    parts.push_back(MatMul(state * state_masks_[static_cast<size_t>(i)], kernel(i, 1)));
  }
  return Concat(parts, 1);
}

Expr GatedCell::Gate(Expr all, int64_t number) const {
  return Slice(all, 1, number * units_, units_);
}

absl::StatusOr<Expr> GatedCell::ActivationOf(std::string_view argument, Expr x) const {
  COHORT_ASSIGN_OR_RETURN(const LayerOutput y, Activate(context_.config.Object(argument), x));
  return y.value;
}

bool GatedCell::HasActivation(std::string_view argument, std::string_view name) const {
  return context_.config.Object(argument).class_name() == name;
}

absl::Status OpenForgetGates(LayerContext* context, int64_t units) {
  const Config& config = context->config;
  if (!config.Bool("use_bias") || !config.Bool("unit_forget_bias") || context->is_shared) {
    return absl::OkStatus();
  }
  v1::InitializerSpec* const spec = context->variables->back().mutable_initializer();
  if (spec->class_name() == "Ones") return absl::OkStatus();
  if (spec->class_name() != "Zeros" && spec->class_name() != "Constant") {
    return InvalidArgument(
        "unit_forget_bias: true needs a bias_initializer Zeros, Ones or Constant, not {}; or set "
        "unit_forget_bias: false",
        spec->class_name());
  }
  spec->set_class_name("OnesWithin");
  spec->set_fan_in(static_cast<uint64_t>(units));
  spec->set_fan_out(static_cast<uint64_t>(2 * units));
  return absl::OkStatus();
}

std::vector<Argument> GatedCellArguments(bool gates) {
  std::vector<Argument> arguments = {
      Int("units", "Size of the state and of the output.").AtLeast(1),
      ActivationArgument("activation", "tanh", "The activation of candidates and outputs.")};
  const auto add = [&arguments](Argument argument) { arguments.push_back(std::move(argument)); };
  if (gates) {
    add(ActivationArgument("recurrent_activation", "sigmoid", "The activation of gates."));
  }
  add(Bool("use_bias", "False: no bias.").Default(true));
  add(InitializerArgument("kernel_initializer", "GlorotUniform", "First kernel of the inputs."));
  add(InitializerArgument("recurrent_initializer", "Orthogonal", "First kernel of the states."));
  add(InitializerArgument("bias_initializer", "Zeros", "First bias."));
  for (const char* variable : {"kernel", "recurrent", "bias"}) {
    add(RegularizerArgument(fmt::format("{}_regularizer", variable)));
    add(ConstraintArgument(fmt::format("{}_constraint", variable)));
  }
  add(Float("dropout", "Share of the inputs that become 0 in training; the same at all steps.")
          .Default(0)
          .Between(0, 1));
  add(Float("recurrent_dropout", "Share of the states that become 0 in the products of training.")
          .Default(0)
          .Between(0, 1));
  add(Int("seed", "Combined with the seed of the job; none counts as 0.").Optional());
  if (gates) {
    add(Int("implementation", "1: dropout has a mask for each gate; 2: one for all.")
            .Default(2)
            .Between(1, 2));
  }
  return arguments;
}

}  // namespace cohort
