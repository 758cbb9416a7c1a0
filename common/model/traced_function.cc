#include "common/model/traced_function.h"

#include <map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/model_reader.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// Computes the layers of a function in their order.
class Call {
 public:
  Call(const LayerOutput& prediction, Expr label) : prediction_(prediction), label_(label) {}

  absl::Status Add(const v1::LayerSpec& spec) {
    COHORT_ASSIGN_OR_RETURN(const LayerClass* layer,
                            LayersFor(spec.class_name()).Find(spec.class_name()));
    v1::ClassConfig given;
    *given.mutable_config() = spec.config();
    COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config, CompleteConfig(layer->schema, given));
    LayerOutput output;
    if (layer->build == nullptr) {
      COHORT_ASSIGN_OR_RETURN(output, Argument(spec.name(), Config(config)));
    } else {
      COHORT_ASSIGN_OR_RETURN(output, Compute(spec, *layer, config));
    }
    if (values_.emplace(spec.name(), output).second) return absl::OkStatus();
    return InvalidArgument("there is another layer of this name");
  }

  absl::StatusOr<Expr> Value(const std::string& name) const {
    const auto it = values_.find(name);
    if (it != values_.end()) return it->second.value;
    return InvalidArgument("no layer before it has the name \"{}\"", name);
  }

 private:
  absl::StatusOr<LayerOutput> Argument(const std::string& name, const Config& config) const {
    const DType floatx = prediction_.value.dtype();
    if (name == "y_pred") return prediction_;
    if (name != "y_true") {
      return InvalidArgument("the inputs of a traced function are y_true and y_pred");
    }
    COHORT_ASSIGN_OR_RETURN(const Expr value, InputValue(config, label_, "the label", floatx));
    return LayerOutput(value);
  }

  absl::StatusOr<LayerOutput> Compute(const v1::LayerSpec& spec, const LayerClass& layer,
                                      const v1::ClassConfig& config) const {
    std::vector<v1::VariableSpec> variables;
    LayerContext context{.builder = prediction_.value.builder(),
                         .config = Config(config),
                         .name = spec.name(),
                         .inputs = {},
                         .floatx = prediction_.value.dtype(),
                         .variables = &variables,
                         .keys = {},
                         .places = {}};
    for (const std::string& input : spec.inputs()) {
      COHORT_RETURN_IF_ERROR(Value(input).status());
      context.inputs.push_back(values_.find(input)->second);
    }
    if (context.inputs.size() < layer.min_inputs || context.inputs.size() > layer.max_inputs) {
      return InvalidArgument("it takes {} to {} inputs, not {}", layer.min_inputs, layer.max_inputs,
                             context.inputs.size());
    }
    COHORT_ASSIGN_OR_RETURN(LayerOutput output, BuildLayer(layer, &context));
    if (variables.empty() && !layer.takes_keys) return output;
    return InvalidArgument("a traced function has no variables");
  }

  const LayerOutput& prediction_;
  const Expr label_;
  std::map<std::string, LayerOutput> values_;
};

}  // namespace

absl::StatusOr<Expr> CallTracedFunction(const std::string& layers, const LayerOutput& prediction,
                                        Expr label) {
  COHORT_ASSIGN_OR_RETURN(const v1::ModelSpec function, ReadModelJson(layers, "layers"));
  if (function.outputs_size() != 1) {
    return InvalidArgument("a traced function has one output, not {}", function.outputs_size());
  }
  Call call(prediction, label);
  for (const v1::LayerSpec& layer : function.layers()) {
    COHORT_RETURN_IF_ERROR(Annotate(
        call.Add(layer), fmt::format("layer \"{}\" ({})", layer.name(), layer.class_name())));
  }
  return call.Value(function.outputs(0));
}

Argument TracedFunctionArgument() {
  return String("layers",
                "The function as JSON with the keys of `model`: Inputs y_true and y_pred, "
                "operations, and one output. The Python package writes it.");
}

}  // namespace cohort
