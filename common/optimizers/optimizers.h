#ifndef COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_
#define COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_

#include <absl/status/statusor.h>

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

// What the update of an element depends on, beside its own gradient and state.
enum class UpdateScope {
  kElement,       // nothing
  kVariableNorm,  // a norm over its whole variable, as LAMB: not supported yet
};

// One optimizer of Keras: an entry of Optimizers().
struct OptimizerClass {
  ClassSchema schema;
  // Makes the rule. `config` is complete (CompleteConfig), `schedule` is its learning rate. `lazy`:
  // sparse_update is "lazy".
  std::unique_ptr<OptimizerRule> (*make)(const Config& config, LearningRateSchedule schedule,
                                         bool lazy) = nullptr;
  UpdateScope scope = UpdateScope::kElement;
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

// Makes the rule of a class for a config that it completes. `set`: rates that count instead of the
// config's, null: none; it outlives the rule. Errors: those of CompleteConfig, and Unimplemented
// for a class whose scope is not kElement.
absl::StatusOr<std::unique_ptr<OptimizerRule>> MakeRule(const OptimizerClass& optimizer,
                                                        const v1::ClassConfig& config, bool lazy,
                                                        const LearningRates* set = nullptr);

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

// The rules of all optimizers of a layout, which tablets share. Constant after Create, except for the
// learning rates that the job sets.
class LayoutRules {
 public:
  // Errors: those of OptimizerRule::Create; InvalidArgument "layout: ..." for a trainable variable
  // without an optimizer.
  static absl::StatusOr<std::shared_ptr<const LayoutRules>> Create(const v1::Layout& layout);

  // Null for a variable that is not trainable.
  const OptimizerRule* Find(const v1::VariableSpec& variable) const;
  // The rates that the job has set for all of them.
  LearningRates* set_rates() const { return set_rates_.get(); }
  // How the gradients of a variable are clipped before its rule.
  GradientClipping ClippingOf(const v1::VariableSpec& variable) const;

 private:
  const std::unique_ptr<LearningRates> set_rates_ = std::make_unique<LearningRates>();
  // By index in Layout.optimizers.
  std::vector<std::unique_ptr<OptimizerRule>> rules_;
  std::vector<GradientClipping> clippings_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_OPTIMIZERS_H_
