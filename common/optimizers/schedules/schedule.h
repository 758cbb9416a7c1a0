#ifndef COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_H_
#define COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

// The learning rate of a step. Steps count from 0, as Keras' `iterations`: the updates that the
// variables have got (sync: steps; other modes: batches). A pure function, so the rate is the same
// after a restart or a rollback.
using LearningRateSchedule = std::function<double(double step)>;

// One schedule of Keras: an entry of Schedules().
struct ScheduleClass {
  ClassSchema schema;
  // `config` is complete. Errors: InvalidArgument for arguments that do not suit each other.
  absl::StatusOr<LearningRateSchedule> (*make)(const Config& config) = nullptr;
  // Arguments that are learning rates, or lists of them. The schedule is linear in all of them.
  std::vector<std::string> rates;
};

// The schedules of schedule_list.h.
const ClassRegistry<ScheduleClass>& Schedules();
const SchemaSet& ScheduleSchemas();

// An argument that is a number or a schedule.
Argument RateArgument(std::string_view name, std::string_view doc);

// Makes the schedule of a value of RateArgument: that of a number is constant. Errors: those of
// CompleteConfig and of ScheduleClass::make.
absl::StatusOr<LearningRateSchedule> MakeSchedule(const v1::ConfigValue& rate);
// True if the rate changes with the step.
inline bool IsSchedule(const v1::ConfigValue& rate) { return rate.has_object(); }

// Multiplies every rate of the schedule.
void ScaleLearningRate(double factor, v1::ConfigValue* rate);

// Arguments that several schedules have.
Argument InitialRateArgument();
Argument DecayStepsArgument(std::string_view name = "decay_steps");
Argument ScheduleNameArgument();

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_H_
