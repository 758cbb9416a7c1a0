#ifndef COHORT_INCLUDE_COHORT_IN_PROCESS_H_
#define COHORT_INCLUDE_COHORT_IN_PROCESS_H_

// A cluster whose workers and parameter servers are objects of the calling process. Link
// Cohort::in_process, which brings Cohort::coordinator.

#include "cohort/cohort.h"
#include "deploy/in_process/in_process_cluster.h"

#endif  // COHORT_INCLUDE_COHORT_IN_PROCESS_H_
