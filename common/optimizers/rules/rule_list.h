#ifndef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_

// The optimizers: X(Name) for each. `OptimizerClass NameOptimizer()` in the file of the rule
// defines it.
#define COHORT_OPTIMIZERS(X) \
  X(Adagrad)                 \
  X(Adam)                    \
  X(AdamW)                   \
  X(Ftrl)                    \
  X(Rmsprop)                 \
  X(Sgd)

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_
