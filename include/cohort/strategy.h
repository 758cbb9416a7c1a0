#ifndef COHORT_INCLUDE_COHORT_STRATEGY_H_
#define COHORT_INCLUDE_COHORT_STRATEGY_H_

// Training loops under each strategy of tf.distribute. Link Cohort::strategy, which brings
// Cohort::coordinator and Cohort::in_process.
//
//   Strategy, StrategyOptions              which tasks compute, and where the variables lie
//   DistributedDataset, DistributedBatch   global batches, split over the replicas
//   DistributedStep, PerReplica, ReduceOp  a step on every replica, and its results

#include "cohort/cohort.h"
#include "deploy/strategy/strategy.h"

#endif  // COHORT_INCLUDE_COHORT_STRATEGY_H_
