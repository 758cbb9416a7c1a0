#ifndef COHORT_CHIEF_CHIEF_METRICS_H_
#define COHORT_CHIEF_CHIEF_METRICS_H_

#include <functional>
#include <optional>

#include "chief/api/coordinator_state.h"
#include "chief/job/job_control.h"
#include "common/base/metrics.h"

namespace cohort {

// Adds what a chief exports about its job to `registry`, for a cluster of this size. Whenever the
// metrics are read, `state` is called once, so that a scrape costs one copy of the state. nullopt:
// the cluster has not started, and the metrics are 0.
void AddChiefMetrics(MetricsRegistry* registry, int workers, int servers,
                     std::function<std::optional<CoordinatorState>()> state);

// Adds how far the job is behind its stream. nullopt: it has none, and the metrics are 0.
void AddStreamMetrics(MetricsRegistry* registry,
                      std::function<std::optional<StreamFigures>()> figures);

}  // namespace cohort

#endif  // COHORT_CHIEF_CHIEF_METRICS_H_
