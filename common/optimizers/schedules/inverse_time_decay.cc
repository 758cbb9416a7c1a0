// Decay by 1 / t: InverseTimeDecay of keras/src/optimizers/schedules/learning_rate_schedule.py.
#include <cmath>

#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass InverseTimeDecaySchedule() {
  return {.schema =
              {.name = "InverseTimeDecay",
               .doc = "`initial_learning_rate / (1 + decay_rate * step / decay_steps)`.",
               .arguments =
                   {InitialRateArgument(), DecayStepsArgument(),
                    Float("decay_rate", "How much the divisor grows per `decay_steps`.").AtLeast(0),
                    Bool("staircase", "`step / decay_steps` is rounded down.").Default(false),
                    ScheduleNameArgument()}},
          .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
            return [rate = config.Float("initial_learning_rate"),
                    steps = config.Float("decay_steps"), decay = config.Float("decay_rate"),
                    stairs = config.Bool("staircase")](double step) {
              const double p = step / steps;
              return rate / (1 + decay * (stairs ? std::floor(p) : p));
            };
          },
          .rates = {"initial_learning_rate"}};
}

}  // namespace cohort
