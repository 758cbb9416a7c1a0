// Half a cosine: CosineDecay of keras/src/optimizers/schedules/learning_rate_schedule.py;
// Loshchilov and Hutter, SGDR (2016).
#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass CosineDecaySchedule() {
  return {.schema =
              {.name = "CosineDecay",
               .doc = "Half a cosine over `decay_steps`, after a linear warm-up if "
                      "`warmup_target` is given.",
               .arguments = {InitialRateArgument(), DecayStepsArgument(),
                             Float("alpha",
                                   "The learning rate after the decay, as a share of the "
                                   "one before it.")
                                 .Default(0.0),
                             ScheduleNameArgument(),
                             Float("warmup_target", "The learning rate after the warm-up.")
                                 .Optional()
                                 .AtLeast(0),
                             Float("warmup_steps", "Steps of the warm-up.").Default(0).AtLeast(0)}},
          .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
            const double initial = config.Float("initial_learning_rate");
            const bool warms = !config.IsNone("warmup_target");
            const double target = warms ? config.Float("warmup_target") : initial;
            const double warmup = warms ? config.Float("warmup_steps") : 0;
            return [=, steps = config.Float("decay_steps"),
                    alpha = config.Float("alpha")](double step) {
              if (step < warmup) return (target - initial) * (step / warmup) + initial;
              const double done = std::min(step - warmup, steps) / steps;
              const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * done));
              return target * ((1 - alpha) * cosine + alpha);
            };
          },
          .rates = {"initial_learning_rate", "warmup_target"}};
}

}  // namespace cohort
