// Adam with weight decay by default: keras/src/optimizers/adamw.py.
#include "common/optimizers/rules/adam.h"
#include "common/optimizers/rules/rule.h"

namespace cohort {

OptimizerClass AdamWOptimizer() {
  return AdamWith("AdamW", "Adam with weight decay that is independent of the gradient.",
                  Float("weight_decay", "Decay of the weights per step, times the learning rate.")
                      .Default(0.004)
                      .OrNone()
                      .Between(0, kMostHyperparameter));
}

}  // namespace cohort
