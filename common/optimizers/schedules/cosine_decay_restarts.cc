// Half cosines: CosineDecayRestarts of keras/src/optimizers/schedules/learning_rate_schedule.py.
#include <cmath>
#include <numbers>

#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass CosineDecayRestartsSchedule() {
  return {
      .schema =
          {.name = "CosineDecayRestarts",
           .doc = "Half cosines, each `t_mul` times as long as the one before and beginning "
                  "`m_mul` times as high.",
           .arguments =
               {InitialRateArgument(), DecayStepsArgument("first_decay_steps"),
                Float("t_mul", "Factor of the steps of the next cosine.").Default(2.0).AtLeast(1),
                Float("m_mul", "Factor of the height of the next cosine.").Default(1.0).AtLeast(0),
                Float("alpha",
                      "The lowest learning rate, as a share of the first "
                      "one.")
                    .Default(0.0),
                ScheduleNameArgument()}},
      .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
        return [initial = config.Float("initial_learning_rate"),
                first = config.Float("first_decay_steps"), longer = config.Float("t_mul"),
                higher = config.Float("m_mul"), alpha = config.Float("alpha")](double step) {
          double done = step / first;
          double restart = std::floor(done);
          if (longer == 1) {
            done -= restart;
          } else {
            restart = std::floor(std::log(1 - done * (1 - longer)) / std::log(longer));
            const double length = std::pow(longer, restart);
            done = (done - (1 - length) / (1 - longer)) / length;
          }
          const double cosine =
              0.5 * std::pow(higher, restart) * (1 + std::cos(std::numbers::pi * done));
          return initial * ((1 - alpha) * cosine + alpha);
        };
      },
      .rates = {"initial_learning_rate"}};
}

}  // namespace cohort
