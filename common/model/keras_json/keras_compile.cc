#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/json_text.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/model/compile_reader.h"
#include "common/model/keras_json/keras_config.h"
#include "common/model/keras_json/keras_json_file.h"
#include "common/model/keras_json/keras_patterns.h"
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "common/optimizers/optimizers.h"

namespace cohort {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

// The values of an argument by output: it is a list in the order of the outputs, or a mapping from
// their names. An output may have none (null).
absl::StatusOr<std::vector<const Json*>> ByOutput(const Json& value, const Names& outputs) {
  std::vector<const Json*> values(outputs.size(), nullptr);
  if (value.is_array()) {
    if (value.size() != outputs.size()) {
      return InvalidArgument("it has {} items, and the model {} outputs: {}", value.size(),
                             outputs.size(), fmt::join(outputs, ", "));
    }
    for (size_t i = 0; i < values.size(); ++i) values[i] = value[i].is_null() ? nullptr : &value[i];
    return values;
  }
  if (!value.is_object()) return InvalidArgument("{} is no mapping of outputs", ShortText(value));
  for (const auto& [name, item] : value.items()) {
    const auto it = std::find(outputs.begin(), outputs.end(), name);
    if (it == outputs.end()) {
      return InvalidArgument("the model has no output \"{}\"; it has {}", PrintableLine(name),
                             fmt::join(outputs, ", "));
    }
    if (!item.is_null()) values[static_cast<size_t>(it - outputs.begin())] = &item;
  }
  return values;
}

absl::Status ReadLoss(const Json& value, const Names& outputs, v1::CompileSpec* compile) {
  std::vector<const Json*> values(outputs.size(), &value);
  if (!IsKerasClass(value)) {
    COHORT_ASSIGN_OR_RETURN(values, ByOutput(value, outputs));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (values[i] == nullptr) {
      return Unimplemented("the output \"{}\" has no loss, which is not supported yet", outputs[i]);
    }
    v1::OutputLoss* const loss = compile->add_losses();
    loss->set_output(outputs[i]);
    loss->set_weight(1);
    COHORT_ASSIGN_OR_RETURN(*loss->mutable_loss_class(), ReadKerasClass(*values[i], Losses()));
  }
  return absl::OkStatus();
}

absl::Status ReadLossWeights(const Json& value, const Names& outputs, v1::CompileSpec* compile) {
  std::vector<const Json*> values = {&value};
  if (!value.is_number()) {
    COHORT_ASSIGN_OR_RETURN(values, ByOutput(value, outputs));
  } else if (outputs.size() != 1) {
    return InvalidArgument("the model has several outputs, and needs a weight for each");
  }
  for (size_t i = 0; i < values.size() && static_cast<int>(i) < compile->losses_size(); ++i) {
    if (values[i] == nullptr) continue;
    if (!values[i]->is_number())
      return InvalidArgument("{} must be a number", ShortText(*values[i]));
    compile->mutable_losses(static_cast<int>(i))->set_weight(values[i]->get<double>());
  }
  return absl::OkStatus();
}

// A metric, or a list of metrics, of one output.
absl::Status AddMetrics(const Json& value, const std::string& output, bool is_only, bool weighted,
                        v1::CompileSpec* compile) {
  if (value.is_null()) return absl::OkStatus();
  if (value.is_array()) {
    for (const Json& item : value) {
      COHORT_RETURN_IF_ERROR(AddMetrics(item, output, is_only, weighted, compile));
    }
    return absl::OkStatus();
  }
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  COHORT_ASSIGN_OR_RETURN(
      v1::ClassConfig config,
      ReadKerasClass(IsChosenAccuracy(text) ? Json("accuracy") : value, Metrics()));
  AddOutputMetric(std::move(config), text, is_only ? "" : output, weighted, compile);
  return absl::OkStatus();
}

absl::Status ReadMetrics(const Json& value, const Names& outputs, bool weighted,
                         v1::CompileSpec* compile) {
  if (value.empty()) return absl::OkStatus();
  if (outputs.size() == 1 && !(value.is_object() && !IsKerasClass(value))) {
    return AddMetrics(value, outputs[0], true, weighted, compile);
  }
  COHORT_ASSIGN_OR_RETURN(const auto values, ByOutput(value, outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (values[i] == nullptr) continue;
    COHORT_RETURN_IF_ERROR(
        AddMetrics(*values[i], outputs[i], outputs.size() == 1, weighted, compile));
  }
  return absl::OkStatus();
}

// MultiOptimizer with its OptimizerMap (keras/src/optimizers/multi_optimizer.py). A name counts
// before the regular expressions, and these before the default. `prefix`: what Keras puts before
// the names of the model's variables.
absl::Status ReadMultiOptimizer(const Json& config, const std::string& prefix,
                                v1::CompileSpec* compile) {
  const Json* const map = FindMember(config, "optimizer_map");
  if (map == nullptr || StringMember(*map, "class_name") != "OptimizerMap") {
    return Unimplemented(
        "MultiOptimizer: Cohort does not run functions of Python that choose an optimizer; give an "
        "OptimizerMap, or write `compile.optimizers` in the job");
  }
  const Json* const factor = FindMember(config, "loss_scale_factor");
  if (factor != nullptr && !factor->is_null()) {
    return Unimplemented(
        "`loss_scale_factor` of MultiOptimizer is not supported: a job in float16 "
        "scales its loss by `mixed_precision`");
  }
  const Json* const map_config = FindMember(*map, "config");
  const Json* const by_name =
      map_config == nullptr ? nullptr : FindMember(*map_config, "optimizer_map");
  const Json* const otherwise =
      map_config == nullptr ? nullptr : FindMember(*map_config, "default_optimizer");
  if (by_name == nullptr || !by_name->is_object() || otherwise == nullptr) {
    return InvalidArgument("OptimizerMap needs a default_optimizer and an optimizer_map");
  }
  const auto add = [&](const std::string& variables, const Json& optimizer) -> absl::Status {
    v1::OptimizerChoice* const choice = compile->add_optimizers();
    choice->set_variables(variables);
    choice->set_sparse_update("keras");
    COHORT_ASSIGN_OR_RETURN(*choice->mutable_optimizer_class(),
                            ReadKerasClass(optimizer, OptimizerSchemas()));
    return absl::OkStatus();
  };
  for (const bool names : {true, false}) {
    for (const auto& [key, optimizer] : by_name->items()) {
      const bool is_name = key.find_first_of(".*+?[](){}|^$\\") == key.npos;
      if (is_name != names) continue;
      std::string_view regex = key;
      if (!prefix.empty() && regex.starts_with(prefix)) regex.remove_prefix(prefix.size());
      COHORT_ASSIGN_OR_RETURN(const Names patterns, PatternsOfRegex(regex));
      for (const std::string& pattern : patterns) {
        COHORT_RETURN_IF_ERROR(Annotate(add(pattern, optimizer), PrintableLine(key)));
      }
    }
  }
  compile->clear_optimizer_class();  // the default
  compile->clear_sparse_update();
  return add("*", *otherwise);
}

}  // namespace

absl::Status KerasJsonFile::ReadArgument(
    const char* name, absl::FunctionRef<absl::Status(const Json& value)> read) const {
  const Json* const config = FindMember(json_, "compile_config");
  const Json* const value = config == nullptr ? nullptr : FindMember(*config, name);
  if (value == nullptr) return absl::OkStatus();
  return Annotate(read(*value), fmt::format("{}: compile_config.{}", path_, name));
}

absl::Status KerasJsonFile::SetLoss(const Names& outputs, v1::CompileSpec* compile) const {
  return ReadArgument("loss", [&](const Json& value) { return ReadLoss(value, outputs, compile); });
}

absl::Status KerasJsonFile::SetLossWeights(const Names& outputs, v1::CompileSpec* compile) const {
  return ReadArgument("loss_weights",
                      [&](const Json& value) { return ReadLossWeights(value, outputs, compile); });
}

absl::Status KerasJsonFile::SetMetrics(const Names& outputs, v1::CompileSpec* compile) const {
  return ReadArgument(
      "metrics", [&](const Json& value) { return ReadMetrics(value, outputs, false, compile); });
}

absl::Status KerasJsonFile::SetWeightedMetrics(const Names& outputs,
                                               v1::CompileSpec* compile) const {
  return ReadArgument("weighted_metrics", [&](const Json& value) {
    return ReadMetrics(value, outputs, true, compile);
  });
}

absl::Status KerasJsonFile::SetOptimizer(v1::CompileSpec* compile) const {
  return ReadArgument("optimizer", [&](const Json& value) -> absl::Status {
    if (value.is_object() && StringMember(value, "class_name") == "MultiOptimizer") {
      const Json* const config = FindMember(value, "config");
      if (config == nullptr) return InvalidArgument("MultiOptimizer has no config");
      // Keras names the variables of a Sequential after it, and not those of other models.
      const Json* const model = FindMember(json_, "config");
      const bool named = StringMember(json_, "class_name") == "Sequential" && model != nullptr;
      return ReadMultiOptimizer(*config, named ? StringMember(*model, "name") + "/" : "", compile);
    }
    COHORT_ASSIGN_OR_RETURN(*compile->mutable_optimizer_class(),
                            ReadKerasClass(value, OptimizerSchemas()));
    return absl::OkStatus();
  });
}

}  // namespace cohort
