#include "common/optimizers/optimizers.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "common/base/status.h"
#include "common/base/suggest.h"
#include "common/optimizers/base_rules.h"
#include "common/optimizers/constraints.h"
#include "common/optimizers/gradient_clipping.h"
#include "common/optimizers/rules/rule.h"
#include "common/optimizers/rules/rule_list.h"
#include "common/tensor/table_rows.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

#define COHORT_DECLARE(Name) OptimizerClass Name##Optimizer();
COHORT_OPTIMIZERS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

absl::Status CheckSparseUpdate(std::string_view optimizer, std::string_view value) {
  if (value == "keras" || value == "lazy") return absl::OkStatus();
  return InvalidArgument("{}: sparse_update must be keras or lazy, not \"{}\"{}", optimizer,
                         value.substr(0, 60), DidYouMean(value, {"keras", "lazy"}));
}

// The learning rate of a complete config.
absl::StatusOr<LearningRateSchedule> ScheduleOf(const v1::ClassConfig& rule) {
  return MakeSchedule(Config(rule).Value("learning_rate"));
}

bool Matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

const ClassRegistry<OptimizerClass>& Optimizers() {
#define COHORT_DEFINE(Name) Name##Optimizer(),
  static const auto& optimizers = *new ClassRegistry<OptimizerClass>(
      "optimizer", SchemaSet::Spelling::kAnyCase, "LossScaleOptimizer MultiOptimizer",
      {COHORT_OPTIMIZERS(COHORT_DEFINE)});
#undef COHORT_DEFINE
  return optimizers;
}

const SchemaSet& OptimizerSchemas() { return Optimizers(); }

absl::StatusOr<v1::OptimizerSpec> CompleteOptimizer(const v1::OptimizerSpec& given,
                                                    std::string* argument) {
  COHORT_ASSIGN_OR_RETURN(const ClassSchema* schema,
                          Optimizers().FindSchema(given.rule().class_name()));
  v1::OptimizerSpec spec;
  COHORT_ASSIGN_OR_RETURN(*spec.mutable_rule(), CompleteConfig(*schema, given.rule(), argument));
  spec.set_sparse_update(given.sparse_update().empty() ? "keras" : given.sparse_update());
  const absl::Status sparse = CheckSparseUpdate(schema->name, spec.sparse_update());
  if (!sparse.ok() && argument != nullptr) *argument = "sparse_update";
  COHORT_RETURN_IF_ERROR(sparse);
  COHORT_RETURN_IF_ERROR(CheckClipping(spec.rule(), argument));
  COHORT_RETURN_IF_ERROR(CheckBaseArguments(spec, argument));
  COHORT_ASSIGN_OR_RETURN(const OptimizerClass* optimizer, Optimizers().Find(schema->name));
  if (optimizer->is_whole && spec.sparse_update() == "lazy") {
    if (argument != nullptr) *argument = "sparse_update";
    return InvalidArgument("{} works on whole variables: sparse_update must be keras",
                           schema->name);
  }
  if ((optimizer->is_whole || optimizer->by_variable) &&
      Config(spec.rule()).String("slot_dtype") != "float32") {
    if (argument != nullptr) *argument = "slot_dtype";
    return InvalidArgument(
        "{} has slots of float32 only: leave slot_dtype out, or use an optimizer that works "
        "element by element, as Adagrad and Adam",
        schema->name);
  }
  if (optimizer->check != nullptr) {
    COHORT_RETURN_IF_ERROR(optimizer->check(Config(spec.rule())));
  }
  const absl::Status schedule = ScheduleOf(spec.rule()).status();
  if (!schedule.ok() && argument != nullptr) *argument = "learning_rate";
  COHORT_RETURN_IF_ERROR(schedule);
  return spec;
}

absl::StatusOr<v1::OptimizerSpec> MakeOptimizer(const v1::ClassConfig& config,
                                                std::string_view sparse_update,
                                                std::string* argument) {
  v1::OptimizerSpec spec;
  *spec.mutable_rule() = config;
  spec.set_sparse_update(std::string(sparse_update));
  return CompleteOptimizer(spec, argument);
}

v1::OptimizerSpec OptimizerOf(std::string_view name,
                              const std::vector<std::pair<std::string, v1::ConfigValue>>& arguments,
                              std::string_view sparse_update) {
  v1::OptimizerSpec spec;
  spec.mutable_rule()->set_class_name(std::string(name));
  for (const auto& [argument, value] : arguments) {
    (*spec.mutable_rule()->mutable_config())[argument] = value;
  }
  spec.set_sparse_update(std::string(sparse_update));
  return spec;
}

absl::StatusOr<std::unique_ptr<OptimizerRule>> OptimizerRule::Create(
    const v1::OptimizerSpec& given, const v1::VariableSpec* variable, const LearningRates* set) {
  COHORT_ASSIGN_OR_RETURN(const v1::OptimizerSpec spec, CompleteOptimizer(given));
  COHORT_ASSIGN_OR_RETURN(const OptimizerClass* optimizer,
                          Optimizers().Find(spec.rule().class_name()));
  COHORT_ASSIGN_OR_RETURN(LearningRateSchedule schedule, ScheduleOf(spec.rule()));
  if (set != nullptr) {
    schedule = [set, own = std::move(schedule)](double step) {
      const std::optional<double> rate = set->At(static_cast<uint64_t>(step));
      return rate.has_value() ? *rate : own(step);
    };
  }
  RuleSettings settings{.schedule = std::move(schedule),
                        .lazy = spec.sparse_update() == "lazy",
                        .bfloat16_slots = Config(spec.rule()).String("slot_dtype") == "bfloat16"};
  if (variable != nullptr) {
    settings.variable = variable->name();
    settings.dims.assign(variable->dims().begin(), variable->dims().end());
  }
  const Config config(spec.rule());
  std::unique_ptr<OptimizerRule> rule = MakeWithBase(*optimizer, config, settings);
  if (variable == nullptr || !variable->has_constraint()) return rule;
  COHORT_ASSIGN_OR_RETURN(const Constraint constraint,
                          Constraint::Create(variable->constraint(), settings.dims));
  return Constrained(std::move(rule), constraint, settings.lazy);
}

absl::Status ChooseOptimizers(std::span<const OptimizerChoice> choices,
                              std::span<v1::VariableSpec> variables) {
  std::vector<std::string> names, patterns;
  for (const v1::VariableSpec& variable : variables) names.push_back(variable.name());
  for (const OptimizerChoice& choice : choices) {
    patterns.push_back(choice.variables);
    bool any = false;
    for (const std::string& name : names) any = any || Matches(choice.variables, name);
    if (!any) {
      return InvalidArgument("no variable matches \"{}\"; there are {}", choice.variables,
                             fmt::join(names, ", "));
    }
  }
  for (v1::VariableSpec& variable : variables) {
    if (!variable.trainable()) continue;
    const OptimizerChoice* chosen = nullptr;
    for (const OptimizerChoice& choice : choices) {
      if (chosen == nullptr && Matches(choice.variables, variable.name())) chosen = &choice;
    }
    if (chosen == nullptr) {
      return InvalidArgument(
          "variable \"{}\" matches none of the patterns {}; end the list with `variables: \"*\"`",
          variable.name(), fmt::join(patterns, ", "));
    }
    variable.set_optimizer(static_cast<uint32_t>(chosen->optimizer));
  }
  return absl::OkStatus();
}

absl::Status MarkWholeVariables(std::span<const v1::OptimizerSpec> optimizers,
                                std::span<v1::VariableSpec> variables) {
  for (v1::VariableSpec& variable : variables) {
    if (!variable.trainable() || variable.optimizer() >= optimizers.size()) continue;
    auto rule = OptimizerRule::Create(optimizers[variable.optimizer()], &variable);
    if (!rule.ok()) {
      return Annotate(rule.status(), fmt::format("variable \"{}\"", variable.name()));
    }
    if ((*rule)->scope() != UpdateScope::kVariable) continue;
    if (IsTable(variable.dims())) {
      return InvalidArgument(
          "variable \"{}\" is a table without bounds, and its optimizer {} or its constraint works "
          "on "
          "whole variables: give it another one (`optimizers`)",
          variable.name(), optimizers[variable.optimizer()].rule().class_name());
    }
    variable.set_whole(true);
  }
  return absl::OkStatus();
}

size_t RowBytes(const v1::VariableSpec& variable, const OptimizerRule* rule) {
  const auto dtype = static_cast<DType>(variable.dtype());
  int64_t elements = 1;
  // A negative size is refused when the shard is made.
  for (int i = 1; i < variable.dims_size(); ++i) elements *= std::max<int64_t>(variable.dims(i), 0);
  size_t bytes = static_cast<size_t>(elements) * SizeOf(dtype);
  if (rule == nullptr) return bytes;
  for (const SlotInfo& slot : rule->slots()) bytes += slot.row_bytes(dtype, elements);
  return bytes;
}

bool KeepAverages(std::span<const v1::OptimizerSpec> optimizers) {
  return std::ranges::any_of(optimizers, [](const v1::OptimizerSpec& optimizer) {
    return Config(optimizer.rule()).Bool("use_ema");
  });
}

absl::StatusOr<std::shared_ptr<const LayoutRules>> LayoutRules::Create(const v1::Layout& layout) {
  auto rules = std::make_shared<LayoutRules>();
  for (const v1::OptimizerSpec& spec : layout.optimizers()) {
    COHORT_ASSIGN_OR_RETURN(auto rule, OptimizerRule::Create(spec, nullptr, rules->set_rates()));
    COHORT_ASSIGN_OR_RETURN(const GradientClipping clipping, GradientClipping::Of(spec));
    rules->rules_.push_back(std::move(rule));
    rules->clippings_.push_back(clipping);
  }
  for (const v1::VariableSpec& variable : layout.variables()) {
    if (!variable.trainable()) continue;
    if (variable.optimizer() < rules->rules_.size()) {
      COHORT_RETURN_IF_ERROR(rules->AddOwnRule(layout, variable));
      continue;
    }
    if (rules->rules_.empty()) {
      return InvalidArgument("layout: variable '{}' is trainable, but there is no optimizer",
                             variable.name());
    }
    return InvalidArgument("layout: variable '{}' has optimizer {}, and there are {}",
                           variable.name(), variable.optimizer(), rules->rules_.size());
  }
  return rules;
}

absl::Status LayoutRules::AddOwnRule(const v1::Layout& layout, const v1::VariableSpec& variable) {
  const v1::OptimizerSpec& spec = layout.optimizers(static_cast<int>(variable.optimizer()));
  COHORT_ASSIGN_OR_RETURN(const OptimizerClass* optimizer,
                          Optimizers().Find(spec.rule().class_name()));
  if (optimizer->by_variable || variable.has_constraint()) {
    auto rule = OptimizerRule::Create(spec, &variable, set_rates());
    if (!rule.ok()) {
      return Annotate(rule.status(), fmt::format("variable '{}'", variable.name()));
    }
    own_[variable.name()] = *std::move(rule);
  }
  if (Find(variable)->scope() != UpdateScope::kVariable) return absl::OkStatus();
  const auto rows = variable.dims().empty() ? 1 : static_cast<uint64_t>(variable.dims(0));
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (layout.variables(static_cast<int>(shard.variable())).name() != variable.name()) continue;
    if (shard.rows() == rows) continue;
    return InvalidArgument(
        "layout: '{}' is cut into shards, but {}{} works on whole variables; a new job keeps it "
        "whole",
        variable.name(), spec.rule().class_name(),
        variable.has_constraint() ? " with " + variable.constraint().class_name() : "");
  }
  return absl::OkStatus();
}

const OptimizerRule* LayoutRules::Find(const v1::VariableSpec& variable) const {
  if (!variable.trainable() || variable.optimizer() >= rules_.size()) return nullptr;
  const auto own = own_.find(variable.name());
  if (own != own_.end()) return own->second.get();
  return rules_[variable.optimizer()].get();
}

GradientClipping LayoutRules::ClippingOf(const v1::VariableSpec& variable) const {
  return Find(variable) == nullptr ? GradientClipping() : clippings_[variable.optimizer()];
}

// ---------------------------------------------------------------- arguments

Argument LearningRateArgument(double default_value) {
  return RateArgument("learning_rate", "Factor of each change.").Default(default_value);
}

Argument EpsilonArgument() {
  return Float("epsilon", "Keeps the divisor away from 0.")
      .Default(1e-7)
      .Between(0, kMostHyperparameter);
}

Argument WeightDecayArgument() {
  return Float("weight_decay", "Decay of the weights per step, times the learning rate.")
      .Optional()
      .Between(0, kMostHyperparameter);
}

Argument BetaArgument(std::string_view name, double default_value, std::string_view doc) {
  return Float(name, doc).Default(default_value).Below(0, 1);
}

std::vector<Argument> WithBaseArguments(std::vector<Argument> own) {
  for (Argument& argument : ClippingArguments()) own.push_back(std::move(argument));
  for (Argument& argument : BaseArguments()) own.push_back(std::move(argument));
  own.push_back(String("name", "Has no effect.").Optional());
  return own;
}

}  // namespace cohort
