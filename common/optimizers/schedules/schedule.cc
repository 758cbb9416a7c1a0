#include "common/optimizers/schedules/schedule.h"

#include <utility>

#include "common/optimizers/rules/rule.h"
#include "common/optimizers/schedules/schedule_list.h"

namespace cohort {

#define COHORT_DECLARE(Name) ScheduleClass Name##Schedule();
COHORT_SCHEDULES(COHORT_DECLARE)
#undef COHORT_DECLARE

const ClassRegistry<ScheduleClass>& Schedules() {
#define COHORT_DEFINE(Name) Name##Schedule(),
  static const auto& schedules =
      *new ClassRegistry<ScheduleClass>("schedule", SchemaSet::Spelling::kExact,
                                        "LearningRateSchedule", {COHORT_SCHEDULES(COHORT_DEFINE)});
#undef COHORT_DEFINE
  return schedules;
}

const SchemaSet& ScheduleSchemas() { return Schedules(); }

Argument RateArgument(std::string_view name, std::string_view doc) {
  return Float(name, doc).Between(0, kMostHyperparameter).OrObject(ScheduleSchemas);
}

absl::StatusOr<LearningRateSchedule> MakeSchedule(const v1::ConfigValue& rate) {
  if (!IsSchedule(rate)) return [constant = rate.f()](double) { return constant; };
  COHORT_ASSIGN_OR_RETURN(const ScheduleClass* found, Schedules().Find(rate.object().class_name()));
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config,
                          CompleteConfig(found->schema, rate.object()));
  auto made = found->make(Config(config));
  if (!made.ok()) return Annotate(made.status(), found->schema.name);
  return made;
}

void ScaleLearningRate(double factor, v1::ConfigValue* rate) {
  if (rate->has_f()) return rate->set_f(rate->f() * factor);
  if (rate->has_list()) {
    for (v1::ConfigValue& item : *rate->mutable_list()->mutable_values()) {
      ScaleLearningRate(factor, &item);
    }
    return;
  }
  if (!rate->has_object()) return;
  const auto found = Schedules().Find(rate->object().class_name());
  if (!found.ok()) return;
  auto* const arguments = rate->mutable_object()->mutable_config();
  for (const std::string& name : (*found)->rates) {
    const auto argument = arguments->find(name);
    if (argument != arguments->end()) ScaleLearningRate(factor, &argument->second);
  }
}

Argument InitialRateArgument() {
  return Float("initial_learning_rate", "The learning rate of step 0.")
      .Between(0, kMostHyperparameter);
}

Argument DecayStepsArgument(std::string_view name) {
  return Float(name, "Steps of the decay.").AtLeast(1);
}

Argument ScheduleNameArgument() { return String("name", "Has no effect.").Optional(); }

}  // namespace cohort
