// A step that a program of the user computes (common/graph/ops/external.cc).
#include <nlohmann/json.hpp>

#include "common/base/printable.h"
#include "common/graph/expr.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildExternal(LayerContext* context) {
  const std::vector<std::string> names = context->config.Strings("names");
  if (names.size() != context->inputs.size()) {
    return InvalidArgument("it has {} names for its {} inputs", names.size(),
                           context->inputs.size());
  }
  for (const std::string& name : names) {
    if (!IsUtf8(name)) {
      return InvalidArgument("names: \"{}\" is not UTF-8", PrintableLine(name));
    }
  }
  std::vector<Expr> inputs;
  for (const LayerOutput& input : context->inputs) inputs.push_back(input.value);
  return LayerOutput(External(inputs, {.columns = context->config.Int("columns"),
                                       .results = context->config.Int("results"),
                                       .names = nlohmann::json(names).dump(),
                                       .training = context->training,
                                       .seed = static_cast<int64_t>(context->seed)}));
}

}  // namespace

LayerClass ExternalLayer() {
  return {.schema = LayerSchema(
              "External",
              "A step that a program of the user computes beside each worker: a row of results for "
              "each record, the loss first, and the gradients of the variables. The inputs are "
              "columns, then Variables.",
              {Int("columns", "How many of its inputs are columns.").AtLeast(1),
               Int("results", "The loss and the metrics.").Default(1).AtLeast(1),
               Strings("names", "The names of the inputs for the program.")}),
          .min_inputs = 2,
          .max_inputs = kAnyNumberOfInputs,
          .build = BuildExternal};
}

}  // namespace cohort
