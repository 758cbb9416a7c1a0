#include "common/model/layers/layer.h"

#include <algorithm>

#include "common/base/printable.h"
#include "common/graph/expr.h"
#include "common/model/activations.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"
#include "common/placement/initializer_classes.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// "kernel_regularizer" for "kernel_initializer".
std::string ArgumentBeside(std::string_view initializer, std::string_view kind) {
  std::string name(initializer);
  name.replace(name.rfind("initializer"), std::string::npos, kind);
  return name;
}

}  // namespace

Expr LayerContext::FloatInput(size_t i) const { return Cast(inputs[i].value, floatx); }

const LayerOutput* LayerContext::Named(std::string_view argument) const {
  for (size_t i = 0; i < input_names.size() && i < inputs.size(); ++i) {
    if (input_names[i] == argument) return &inputs[i];
  }
  return nullptr;
}

absl::StatusOr<ValueType> LayerContext::AddVariable(std::string_view suffix,
                                                    std::vector<int64_t> dims,
                                                    std::string_view initializer, bool row_reads,
                                                    std::vector<int64_t> fans) {
  COHORT_ASSIGN_OR_RETURN(ValueType type, Declare(suffix, dims, config.Object(initializer),
                                                  initializer, row_reads, std::move(fans)));
  const std::string constraint = ArgumentBeside(initializer, "constraint");
  if (is_shared || !trainable() || !config.Has(constraint)) return type;
  const absl::Status suits = Constraint::Create(config.Object(constraint), dims).status();
  if (!suits.ok()) return Annotate(suits, constraint);
  *variables->back().mutable_constraint() = config.Object(constraint);
  return type;
}

absl::StatusOr<ValueType> LayerContext::Declare(std::string_view suffix, std::vector<int64_t> dims,
                                                const v1::ClassConfig& initializer,
                                                std::string_view argument, bool row_reads,
                                                std::vector<int64_t> fans) {
  ValueType type{floatx, {}};
  for (int64_t size : dims) type.dims.push_back({size, 0});
  const std::string variable_name = VariableName(suffix);
  // It stands in the headers of checkpoints, which are JSON.
  if (!IsUtf8(variable_name)) {
    return InvalidArgument("the name \"{}\" is not UTF-8", PrintableLine(variable_name));
  }
  if (is_shared) {
    for (const v1::VariableSpec& known : *variables) {
      if (known.name() != variable_name) continue;
      if (std::equal(dims.begin(), dims.end(), known.dims().begin(), known.dims().end())) {
        return type;
      }
      return InvalidArgument("its input needs {} of shape {}, but the layer \"{}\" has {}", suffix,
                             DimsToString(dims), name,
                             DimsToString(Dims(known.dims().begin(), known.dims().end())));
    }
  }
  v1::VariableSpec variable;
  variable.set_name(variable_name);
  variable.set_dtype(static_cast<v1::DType>(floatx));
  for (int64_t size : dims) variable.add_dims(size);
  auto made = MakeInitializer(initializer, seed, fans.empty() ? dims : fans);
  if (!made.ok()) return Annotate(made.status(), argument);
  *variable.mutable_initializer() = *std::move(made);
  variable.set_trainable(config.Bool("trainable"));
  variable.set_row_reads(row_reads);
  variables->push_back(std::move(variable));
  return type;
}

absl::StatusOr<ValueType> LayerContext::AddState(std::string_view suffix, std::vector<int64_t> dims,
                                                 const v1::ClassConfig& initializer) {
  COHORT_ASSIGN_OR_RETURN(ValueType type, Declare(suffix, std::move(dims), initializer,
                                                  fmt::format("{}_initializer", suffix), false));
  if (!is_shared) variables->back().set_trainable(false);
  return type;
}

std::string LayerContext::VariableName(std::string_view suffix) const {
  return suffix.empty() ? name : fmt::format("{}/{}", name, suffix);
}

absl::StatusOr<Expr> LayerContext::Weight(std::string_view suffix, std::vector<int64_t> dims,
                                          std::string_view initializer, std::vector<int64_t> fans) {
  COHORT_ASSIGN_OR_RETURN(const ValueType type, AddVariable(suffix, std::move(dims), initializer,
                                                            false, std::move(fans)));
  Expr weight = builder->Read(VariableName(suffix), type);
  if (on_weight) {
    COHORT_ASSIGN_OR_RETURN(weight, on_weight(suffix, weight));
  }
  const std::string regularizer = ArgumentBeside(initializer, "regularizer");
  if (penalties == nullptr || !trainable() || !config.Has(regularizer)) return weight;
  auto penalty = Penalty(config.Object(regularizer), weight);
  if (!penalty.ok()) return Annotate(penalty.status(), regularizer);
  (*penalties)[VariableName(suffix)] = *penalty;
  return weight;
}

absl::StatusOr<Expr> LayerContext::WeightOf(std::string_view suffix, std::vector<int64_t> dims,
                                            const v1::ClassConfig& initializer) {
  COHORT_ASSIGN_OR_RETURN(const ValueType type,
                          Declare(suffix, std::move(dims), initializer, suffix, false));
  return builder->Read(VariableName(suffix), type);
}

LayerContext LayerContext::Inner(const v1::ClassConfig& inner_config,
                                 std::string_view inner) const {
  return {.builder = builder,
          .config = Config(inner_config),
          .name = fmt::format("{}/{}", name, inner),
          .inputs = {},
          .input_names = {},
          .training = training,
          .floatx = floatx,
          .seed = seed,
          .variables = variables,
          .penalties = penalties,
          .is_shared = is_shared,
          .keys = {},
          .places = {}};
}

absl::Status LayerClass::CheckClass() const {
  if (schema.Find("trainable") == nullptr && !schema.name.starts_with(kOperationPrefix)) {
    return InvalidArgument(
        "the layer {} has no argument `trainable`: make its schema by LayerSchema", schema.name);
  }
  if (build || schema.name == "Input") return absl::OkStatus();
  return InvalidArgument("the layer {} has no function `build`", schema.name);
}

ClassSchema LayerSchema(std::string_view name, std::string_view doc,
                        std::vector<Argument> arguments) {
  // keras/src/layers/layer.py
  ClassSchema schema{std::string(name), {}, std::string(doc), std::move(arguments)};
  for (Argument& common : std::vector<Argument>{
           Bool("trainable", "False: its variables stay as they are.").Default(true),
           String("dtype", "float32: the layer stays exact in a job with `mixed_precision`.")
               .Optional()
               .OneOf({"float32"}),
           RegularizerArgument("activity_regularizer")}) {
    if (schema.Find(common.name) == nullptr) schema.arguments.push_back(std::move(common));
  }
  return schema;
}

Argument InputNamesArgument() {
  return Strings("input_names", "The arguments that the inputs are; none: the first ones.")
      .Optional();
}

ClassRegistry<LayerClass>& LayersFor(std::string_view name) {
  return name.starts_with(kOperationPrefix) ? Operations() : Layers();
}

Argument InitializerArgument(std::string_view name, std::string_view default_class,
                             std::string_view doc) {
  return Object(name, InitializerSchemas, doc).Default(default_class);
}

Argument ActivationArgument(std::string_view name, std::string_view default_class,
                            std::string_view doc) {
  Argument argument = Object(name, ActivationSchemas, doc);
  return default_class.empty() ? argument : std::move(argument).Default(default_class);
}

std::vector<int64_t> ReshapeDims(std::span<const Dim> dims) {
  std::vector<int64_t> sizes;
  for (const Dim& dim : dims) sizes.push_back(dim.bounded() ? -1 : dim.size);
  return sizes;
}

int64_t ElementsPerRecord(const ValueType& type) {
  int64_t elements = 1;
  for (size_t i = 1; i < type.dims.size(); ++i) elements *= type.dims[i].size;
  return elements;
}

}  // namespace cohort
