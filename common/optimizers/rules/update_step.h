#ifndef COHORT_COMMON_OPTIMIZERS_RULES_UPDATE_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_UPDATE_STEP_H_

#include <variant>

#include "common/optimizers/rules/adagrad_step.h"
#include "common/optimizers/rules/adam_step.h"
#include "common/optimizers/rules/ftrl_step.h"
#include "common/optimizers/rules/rmsprop_step.h"
#include "common/optimizers/rules/sgd_step.h"

namespace cohort {

// A *step* of a rule: its constants in one step of training, in the arithmetic of the variable, and
//
//   T learning_rate, weight_decay;                 // and others
//   int slots() const;                             // that it uses
//   void Update(T& w, T* slots, T g) const;        // one element, without weight decay
//
// Devices run Update; the CPU runs the vectorized kernel beside the rule, which computes the same
// bits. It can be copied as bytes.
struct UpdateStep {
  std::variant<AdagradStep<float>, AdagradStep<double>, AdamStep<float>, AdamStep<double>,
               FtrlStep<float>, FtrlStep<double>, RmspropStep<float>, RmspropStep<double>,
               SgdStep<float>, SgdStep<double>>
      of;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_UPDATE_STEP_H_
