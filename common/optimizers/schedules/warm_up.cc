// A warm-up before any schedule; Goyal et al., Accurate, Large Minibatch SGD (2017). Keras has it
// only in CosineDecay.
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass WarmUpSchedule() {
  return {
      .schema = {.name = "WarmUp",
                 .doc = "The learning rate rises to the first one of another schedule, which then "
                        "begins. Cohort's own.",
                 .arguments =
                     {RateArgument("schedule",
                                   "The learning rate after the warm-up, or a "
                                   "schedule."),
                      Float("warmup_steps", "Steps of the warm-up.").AtLeast(1),
                      Float("warmup_from", "The learning rate of step 0.").Default(0.0).AtLeast(0),
                      Float("power", "1: in a line.").Default(1.0).AtLeast(0)}},
      .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
        COHORT_ASSIGN_OR_RETURN(LearningRateSchedule after, MakeSchedule(config.Value("schedule")));
        const double target = after(0);
        return [target, after = std::move(after), steps = config.Float("warmup_steps"),
                from = config.Float("warmup_from"), power = config.Float("power")](double step) {
          if (step >= steps) return after(step - steps);
          return from + (target - from) * std::pow(step / steps, power);
        };
      },
      .rates = {"schedule", "warmup_from"}};
}

}  // namespace cohort
