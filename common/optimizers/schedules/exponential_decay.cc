// Decay by a factor: ExponentialDecay of keras/src/optimizers/schedules/learning_rate_schedule.py.
#include <cmath>

#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass ExponentialDecaySchedule() {
  return {
      .schema = {.name = "ExponentialDecay",
                 .doc = "`initial_learning_rate * decay_rate ^ (step / decay_steps)`.",
                 .arguments = {InitialRateArgument(), DecayStepsArgument(),
                               Float("decay_rate", "The factor per `decay_steps`.").AtLeast(0),
                               Bool("staircase", "The exponent is rounded down.").Default(false),
                               ScheduleNameArgument()}},
      .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
        return
            [rate = config.Float("initial_learning_rate"), steps = config.Float("decay_steps"),
             factor = config.Float("decay_rate"), stairs = config.Bool("staircase")](double step) {
              const double p = step / steps;
              return rate * std::pow(factor, stairs ? std::floor(p) : p);
            };
      },
      .rates = {"initial_learning_rate"}};
}

}  // namespace cohort
