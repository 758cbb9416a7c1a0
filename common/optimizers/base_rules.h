#ifndef COHORT_COMMON_OPTIMIZERS_BASE_RULES_H_
#define COHORT_COMMON_OPTIMIZERS_BASE_RULES_H_

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <vector>

#include "common/optimizers/constraints.h"
#include "common/optimizers/optimizers.h"

namespace cohort {

// What every optimizer of Keras can do besides its rule (keras/src/optimizers/base_optimizer.py).
// Each is a rule around another one, so that a job without it pays nothing:
//
//   gradient_accumulation_steps ◄ use_ema ◄ the constraint of the variable

// The arguments of these, for the schema of every optimizer.
std::vector<Argument> BaseArguments();
// Errors: InvalidArgument for arguments that do not suit each other. `argument` (may be null)
// receives the name of one.
absl::Status CheckBaseArguments(const v1::OptimizerSpec& complete, std::string* argument);

// The rule of a class with those that its arguments ask for around it.
std::unique_ptr<OptimizerRule> MakeWithBase(const OptimizerClass& optimizer, const Config& config,
                                            const RuleSettings& settings);

// A rule, after which the variable is constrained. `lazy`: a sparse update constrains the rows of
// its keys alone.
std::unique_ptr<OptimizerRule> Constrained(std::unique_ptr<OptimizerRule> rule,
                                           const Constraint& constraint, bool lazy);

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_BASE_RULES_H_
