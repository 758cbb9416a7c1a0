#ifndef COHORT_PS_SERVER_PS_METRICS_H_
#define COHORT_PS_SERVER_PS_METRICS_H_

#include "common/base/metrics.h"

namespace cohort {

// The figures that a parameter server exports. Handles of a registry that outlives this.
struct PsMetrics {
  explicit PsMetrics(MetricsRegistry* registry);

  // By v1.SectionStatus: one count per section. Null: a push or pull never gets this status.
  Counter* pushes[10] = {};
  Counter* pulls[10] = {};
  Counter* bytes_in;    // payload of requests
  Counter* bytes_out;   // payload of responses
  Counter* bytes_lent;  // payload of responses that clients read where it is
  Counter* bad_requests;
  Counter* watermarks_ahead;  // requests whose watermark is above the chief's; it is ignored
  Counter* refused_streams;   // the client named another server, or another incarnation
  Counter* non_finite_gradients;
  Histogram* apply_seconds;  // time to apply one section
  Counter* steps_closed;     // synchronous ones
  Histogram* staleness;      // updates between the pull and the push
  Counter* snapshots_written;
  Counter* snapshots_failed;
  Histogram* snapshot_seconds;
  Counter* partially_applied;  // see RestoredTablet::partially_applied
  Counter* apply_log_errors;
  Counter* rows_found_in_memory;  // by reads and updates, in tables with a limit of memory
  Counter* rows_found_on_disk;
  Gauge* generation;
  Gauge* timeline;
  Gauge* tablets;
  Gauge* watermark;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_METRICS_H_
