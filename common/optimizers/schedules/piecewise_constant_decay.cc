// A table: PiecewiseConstantDecay of keras/src/optimizers/schedules/learning_rate_schedule.py.
#include <algorithm>

#include "common/base/status.h"
#include "common/optimizers/rules/rule.h"
#include "common/optimizers/schedules/schedule.h"

namespace cohort {

ScheduleClass PiecewiseConstantDecaySchedule() {
  return {.schema = {.name = "PiecewiseConstantDecay",
                     .doc = "A table: `values[0]` up to and with step `boundaries[0]`, then "
                            "`values[1]`, and so on.",
                     .arguments = {Floats("boundaries",
                                          "The last step of each value but the last; "
                                          "they ascend."),
                                   Floats("values", "The learning rates, one more than boundaries.")
                                       .Between(0, kMostHyperparameter),
                                   ScheduleNameArgument()}},
          .make = [](const Config& config) -> absl::StatusOr<LearningRateSchedule> {
            std::vector<double> boundaries = config.Floats("boundaries");
            std::vector<double> values = config.Floats("values");
            if (values.size() != boundaries.size() + 1) {
              return InvalidArgument("{} boundaries need {} values, not {}", boundaries.size(),
                                     boundaries.size() + 1, values.size());
            }
            if (!std::ranges::is_sorted(boundaries)) {
              return InvalidArgument("the boundaries must ascend");
            }
            return [boundaries, values](double step) {
              const auto at = std::ranges::lower_bound(boundaries, step);
              return values[static_cast<size_t>(at - boundaries.begin())];
            };
          },
          .rates = {"values"}};
}

}  // namespace cohort
