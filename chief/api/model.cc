#include "chief/api/model.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/base/status.h"
#include "common/graph/device_name.h"
#include "common/graph/expr.h"
#include "common/model/layers/layer_names.h"
#include "common/model/layers/masks.h"
#include "common/schema/class_registry.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// Shared by the copies of a layer.
struct Layer::State {
  VariableSet* variables;
  std::string name;
  std::string device;                       // where it runs; "": the worker's own device
  std::string where;                        // "layer "dense" (Dense)", for errors
  const LayerClass* layer_class = nullptr;  // null after an error of the constructor
  v1::ClassConfig config;                   // complete
  absl::Status status;                      // the error of the constructor
  bool declared = false;                    // by the first call
  std::vector<v1::VariableSpec> specs;      // those of the first call
};

namespace {

// Finds the class and completes its arguments.
absl::Status FindLayerClass(const v1::ClassConfig& given, const LayerClass** found,
                            v1::ClassConfig* complete) {
  COHORT_ASSIGN_OR_RETURN(const LayerClass* layer_class, Layers().Find(given.class_name()));
  COHORT_ASSIGN_OR_RETURN(*complete, CompleteConfig(layer_class->schema, given));
  *found = layer_class;
  return absl::OkStatus();
}

absl::Status CheckNumberOfInputs(const LayerClass& layer_class, size_t count) {
  if (count < layer_class.min_inputs) {
    return InvalidArgument("it takes at least {} inputs, not {}", layer_class.min_inputs, count);
  }
  if (count <= layer_class.max_inputs) return absl::OkStatus();
  return InvalidArgument("it takes {} input, not {}", layer_class.max_inputs, count);
}

// A step must know which rows of a table to pull before it pulls anything.
absl::Status CheckKeys(const LayerContext& context) {
  const Program& program = context.builder->program();
  std::set<ValueId> needed = {context.inputs[0].value.id()};
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const auto is_needed = [&](ValueId id) { return needed.contains(id); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), is_needed)) continue;
    if (node->op == "read" || node->op == "read_rows") {
      return InvalidArgument("its ids depend on weights; they must come from the data");
    }
    needed.insert(node->inputs.begin(), node->inputs.end());
  }
  return absl::OkStatus();
}

bool SameVariable(const v1::VariableSpec& a, const v1::VariableSpec& b) {
  return a.name() == b.name() &&
         std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end());
}

std::string VariableText(const v1::VariableSpec& spec) {
  return fmt::format("{} [{}]", spec.name(), fmt::join(spec.dims(), ", "));
}

}  // namespace

Layer::Layer(VariableSet* variables, const KerasClass& layer) : state_(new State{variables}) {
  v1::ClassConfig given = layer.config();
  const auto name = given.config().find("name");
  state_->name = name != given.config().end() ? ConfigText(name->second)
                                              : variables->layer_names_->Next(layer.name);
  given.mutable_config()->erase("name");
  if (const auto device = given.config().find("device"); device != given.config().end()) {
    state_->device = ConfigText(device->second);
    given.mutable_config()->erase("device");
  }
  state_->where = fmt::format("layer \"{}\" ({})", state_->name, layer.name);
  absl::Status status = FindLayerClass(given, &state_->layer_class, &state_->config);
  if (status.ok() && !state_->device.empty()) {
    status = ParseDeviceName(state_->device).status();
    if (!status.ok()) state_->layer_class = nullptr;
  }
  if (status.ok() && state_->layer_class->build == nullptr) {
    state_->layer_class = nullptr;
    status = InvalidArgument(
        "it is no layer to call: use StepTrace::Input, or begin BuildModel "
        "with it");
  }
  state_->status = Annotate(std::move(status), state_->where);
  variables->Fail(state_->status);
}

const std::string& Layer::name() const { return state_->name; }

Expr Layer::operator()(StepTrace* step, Expr input) const {
  return (*this)(step, std::vector<Expr>{input});
}

Expr Layer::operator()(StepTrace* step, const std::vector<Expr>& inputs) const {
  ProgramBuilder* builder = step->builder();
  if (state_->layer_class == nullptr) builder->Fail(state_->status);
  if (!builder->status().ok()) return Expr();
  builder->SetScope(state_->name);
  builder->SetDevice(state_->device);
  const absl::StatusOr<LayerOutput> output = Call(step, inputs);
  builder->SetScope("");
  builder->SetDevice("");
  builder->Fail(output.status());
  builder->AnnotateError(state_->where);
  if (!builder->status().ok()) return Expr();
  step->outputs_[output->value.id()] = *output;
  return output->value;
}

absl::StatusOr<LayerOutput> Layer::Call(StepTrace* step, const std::vector<Expr>& inputs) const {
  COHORT_RETURN_IF_ERROR(CheckNumberOfInputs(*state_->layer_class, inputs.size()));
  std::vector<v1::VariableSpec> specs;
  LayerContext context{.builder = step->builder(),
                       .config = Config(state_->config),
                       .name = state_->name,
                       .inputs = {},
                       .training = step->mode_ == StepMode::kTrain,
                       .floatx = state_->variables->dtype_,
                       .seed = state_->variables->seed_,
                       .variables = &specs,
                       .penalties = &step->penalties_};
  for (const Expr& input : inputs) {
    if (!input.valid() || input.builder() != step->builder()) {
      return InvalidArgument("its input {}",
                             input.valid() ? "belongs to another step" : "is not a value");
    }
    context.inputs.push_back(step->OutputOf(input));
  }
  if (state_->layer_class->takes_keys) {
    COHORT_RETURN_IF_ERROR(CheckKeys(context));
    std::tie(context.keys, context.places) = Unique(Cast(context.inputs[0].value, DType::kInt64));
  }
  COHORT_ASSIGN_OR_RETURN(const LayerOutput output, BuildLayer(*state_->layer_class, &context));
  for (const v1::VariableSpec& spec : specs) {
    if (!spec.trainable()) step->frozen_.insert(spec.name());
  }
  COHORT_RETURN_IF_ERROR(Declare(std::move(specs)));
  return output;
}

absl::Status Layer::Declare(std::vector<v1::VariableSpec> specs) const {
  if (!state_->declared) {
    std::vector<v1::VariableSpec>& all = state_->variables->specs_;
    for (const v1::VariableSpec& spec : specs) {
      const auto same_name = [&](const auto& other) { return other.name() == spec.name(); };
      if (std::any_of(all.begin(), all.end(), same_name)) {
        return InvalidArgument("there is another variable \"{}\"", spec.name());
      }
    }
    all.insert(all.end(), specs.begin(), specs.end());
    state_->specs = std::move(specs);
    state_->declared = true;
    return absl::OkStatus();
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (i < state_->specs.size() && SameVariable(specs[i], state_->specs[i])) continue;
    return InvalidArgument("it needs the variable {}, but an earlier call has declared {}",
                           VariableText(specs[i]),
                           i < state_->specs.size() ? VariableText(state_->specs[i]) : "none");
  }
  return absl::OkStatus();
}

Expr Model::operator()(StepTrace* step, Expr input) const {
  if (input_ != nullptr && input.valid()) {
    const auto fitting = InputValue(Config(*input_), input, "the batch", floatx_);
    if (!fitting.ok()) {
      step->builder()->Fail(Annotate(fitting.status(), "Input of the model"));
      return Expr();
    }
    input = *fitting;
  }
  for (const Layer& layer : layers_) input = layer(step, input);
  return input;
}

Model BuildModel(VariableSet* variables, const std::vector<KerasClass>& layers) {
  Model model;
  model.floatx_ = variables->dtype_;
  size_t first = 0;
  if (!layers.empty() && layers[0].name == "Input") {
    first = 1;
    v1::ClassConfig given = layers[0].config();
    given.mutable_config()->erase("name");
    const LayerClass* input = nullptr;
    v1::ClassConfig complete;
    const absl::Status status = FindLayerClass(given, &input, &complete);
    variables->Fail(Annotate(status, "Input of the model"));
    if (status.ok()) model.input_ = std::make_shared<const v1::ClassConfig>(std::move(complete));
  }
  for (size_t i = first; i < layers.size(); ++i) model.layers_.emplace_back(variables, layers[i]);
  if (model.input_ == nullptr) return model;
  const Config config(*model.input_);
  if (config.Ints("shape").empty()) return model;
  // Any step declares the variables.
  StepTrace step("model", /*batch_size=*/1, StepMode::kEvaluate);
  const DType dtype = DTypeFromName(config.String("dtype")).value_or(variables->dtype_);
  model(&step, step.Input("input", dtype, config.Ints("shape")));
  variables->Fail(step.builder()->status());
  return model;
}

}  // namespace cohort
