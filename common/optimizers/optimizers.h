#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/optimizers/gradient_clipping.h"
#include "common/optimizers/learning_rates.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/optimizers/schedules/schedule.h"
#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

namespace v1 {
class Layout;
class OptimizerSpec;
class VariableSpec;
}  // namespace v1

// What a rule is made for, beside the arguments of its class.
struct RuleSettings {
  LearningRateSchedule schedule;  // its learning rate
  bool lazy = false;              // sparse_update is "lazy"
  bool bfloat16_slots = false;    // SlotInfo::is_bfloat16
  std::string variable;           // the one that it updates; "": any
  std::vector<int64_t> dims;      // those of the variable
};

// One optimizer of Keras: an entry of Optimizers().
struct OptimizerClass {
  ClassSchema schema;
  // Makes the rule. `config` is complete (CompleteConfig).
  std::unique_ptr<OptimizerRule> (*make)(const Config& config,
                                         const RuleSettings& settings) = nullptr;
  // The rule depends on the name and the shape of its variable.
  bool by_variable = false;
  // Every rule of it works on whole variables, so that no update is lazy.
  bool is_whole = false;
  // Checks arguments that do not suit each other. `config` is complete. Null: nothing to check.
  absl::Status (*check)(const Config& config) = nullptr;
};

// The optimizers of rules/rule_list.h. A name may be written in any case, as in Keras.
const ClassRegistry<OptimizerClass>& Optimizers();
const SchemaSet& OptimizerSchemas();

// Checks a specification and fills in Keras' defaults; sparse_update is "keras" by default. The
// result stays as it is if it is completed again. Errors: those of CompleteConfig and
// SchemaSet::FindSchema, and InvalidArgument for an unknown sparse_update, or for more than one
// kind of clipping. `argument` (may be null) receives the name of the argument that the error is
// about.
absl::StatusOr<v1::OptimizerSpec> CompleteOptimizer(const v1::OptimizerSpec& given,
                                                    std::string* argument = nullptr);

// Completes the specification of a class with its arguments. An empty `sparse_update` is the
// default. Errors and `argument`: those of CompleteOptimizer.
absl::StatusOr<v1::OptimizerSpec> MakeOptimizer(const v1::ClassConfig& config,
                                                std::string_view sparse_update,
                                                std::string* argument = nullptr);

// Makes a specification in code: OptimizerOf("SGD", {{"learning_rate", ConfigOf(0.1)}}).
v1::OptimizerSpec OptimizerOf(std::string_view name,
                              const std::vector<std::pair<std::string, v1::ConfigValue>>& arguments,
                              std::string_view sparse_update = "keras");

// An optimizer for the variables whose names match a pattern.
struct OptimizerChoice {
  std::string variables;  // "embedding/*": * stands for any text, ? for one character, [ab] for one
  int optimizer = 0;      // index into Layout.optimizers
};

// Sets VariableSpec.optimizer of each trainable variable to the first choice that matches its name.
// Errors: InvalidArgument that names a variable without a match, or a pattern that no variable
// matches.
absl::Status ChooseOptimizers(std::span<const OptimizerChoice> choices,
                              std::span<v1::VariableSpec> variables);

// Sets VariableSpec.whole of each variable whose rule works on whole variables. Errors: those of
// OptimizerRule::Create, with the variable's name; InvalidArgument for a table without bounds.
absl::Status MarkWholeVariables(std::span<const v1::OptimizerSpec> optimizers,
                                std::span<v1::VariableSpec> variables);

// The memory of a row of the variable: its values, and those of the slots. `rule` may be null.
size_t RowBytes(const v1::VariableSpec& variable, const OptimizerRule* rule);

// True if one of these complete specifications keeps averages of its variables (use_ema).
bool KeepAverages(std::span<const v1::OptimizerSpec> optimizers);

// The rules of all optimizers of a layout, which tablets share. Constant after Create, except for
// the learning rates that the job sets.
class LayoutRules {
 public:
  // Errors: those of OptimizerRule::Create; InvalidArgument "layout: ..." for a trainable variable
  // without an optimizer, or for one that is cut although its rule works on whole variables.
  static absl::StatusOr<std::shared_ptr<const LayoutRules>> Create(const v1::Layout& layout);

  // Null for a variable that is not trainable.
  const OptimizerRule* Find(const v1::VariableSpec& variable) const;
  // The rates that the job has set for all of them.
  LearningRates* set_rates() const { return set_rates_.get(); }
  // How the gradients of a variable are clipped before its rule.
  GradientClipping ClippingOf(const v1::VariableSpec& variable) const;

 private:
  absl::Status AddOwnRule(const v1::Layout& layout, const v1::VariableSpec& variable);

  const std::unique_ptr<LearningRates> set_rates_ = std::make_unique<LearningRates>();
  // By index in Layout.optimizers.
  std::vector<std::unique_ptr<OptimizerRule>> rules_;
  // The rules of variables that have one of their own, by name.
  std::map<std::string, std::unique_ptr<OptimizerRule>> own_;
  std::vector<GradientClipping> clippings_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_
