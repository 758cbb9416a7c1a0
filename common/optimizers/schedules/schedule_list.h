#ifndef COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_LIST_H_
#define COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_LIST_H_

// Every schedule: X(Name) for a function NameSchedule() in a file of this folder.
#define COHORT_SCHEDULES(X) \
  X(CosineDecay)            \
  X(CosineDecayRestarts)    \
  X(ExponentialDecay)       \
  X(InverseTimeDecay)       \
  X(PiecewiseConstantDecay) \
  X(PolynomialDecay)        \
  X(WarmUp)

#endif  // COHORT_COMMON_OPTIMIZERS_SCHEDULES_SCHEDULE_LIST_H_
