// Decay to an end value: PolynomialDecay of
// keras/src/optimizers/schedules/learning_rate_schedule.py.
#include <algorithm>
#include <cmath>

#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass PolynomialDecaySchedule() {
  return {
      .schema = {.name = "PolynomialDecay",
                 .doc = "`(initial_learning_rate - end_learning_rate) * (1 - step / decay_steps) ^ "
                        "power + end_learning_rate`.",
                 .arguments = {InitialRateArgument(), DecayStepsArgument(),
                               Float("end_learning_rate", "The learning rate after the decay.")
                                   .Default(0.0001)
                                   .AtLeast(0),
                               Float("power", "The power of the polynomial.").Default(1.0),
                               Bool("cycle",
                                    "After `decay_steps` the decay restarts, over the "
                                    "next multiple of `decay_steps`.")
                                   .Default(false),
                               ScheduleNameArgument()}},
      .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
        return [first = config.Float("initial_learning_rate"), steps = config.Float("decay_steps"),
                end = config.Float("end_learning_rate"), power = config.Float("power"),
                cycle = config.Bool("cycle")](double step) {
          const double cycles = cycle && step > 0 ? std::ceil(step / steps) : 1;
          const double p = std::min(step / (steps * cycles), 1.0);
          return (first - end) * std::pow(1 - p, power) + end;
        };
      },
      .rates = {"initial_learning_rate", "end_learning_rate"}};
}

}  // namespace cohort
