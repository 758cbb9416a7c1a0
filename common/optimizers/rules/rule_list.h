#ifndef COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_

// The optimizers: X(Name) for each. `OptimizerClass NameOptimizer()` in the file of the rule
// defines it.
#define COHORT_OPTIMIZERS(X) \
  X(Adadelta)                \
  X(Adafactor)               \
  X(Adagrad)                 \
  X(Adam)                    \
  X(AdamW)                   \
  X(Adamax)                  \
  X(Ftrl)                    \
  X(Lamb)                    \
  X(Lion)                    \
  X(Muon)                    \
  X(Nadam)                   \
  X(Rmsprop)                 \
  X(RowwiseAdagrad)          \
  X(ScheduleFreeAdamW)       \
  X(Sgd)                     \
  X(TorchAdagrad)            \
  X(TorchAdam)               \
  X(TorchAdamW)              \
  X(TorchRmsprop)            \
  X(TorchSgd)

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RULE_LIST_H_
