#include "ps_server/ps_metrics.h"

#include "proto/parameter_server.pb.h"

namespace cohort {

PsMetrics::PsMetrics(MetricsRegistry* r)
    : bytes_in(r->AddCounter("cohort_ps_received_bytes_total", "Payload bytes of requests.")),
      bytes_out(r->AddCounter("cohort_ps_sent_bytes_total", "Payload bytes of responses.")),
      bytes_lent(r->AddCounter("cohort_ps_lent_bytes_total",
                               "Pulled bytes that workers of this host read in place.")),
      bad_requests(r->AddCounter("cohort_ps_bad_requests_total",
                                 "Requests that could not be read as a whole.")),
      watermarks_ahead(
          r->AddCounter("cohort_ps_watermarks_ahead_total",
                        "Requests with a settled watermark above the chief's own word "
                        "to this server: it is not taken. A few are usual: a worker may "
                        "hear of it first.")),
      refused_streams(r->AddCounter("cohort_ps_refused_streams_total",
                                    "Streams of workers that meant another server or life.")),
      non_finite_gradients(r->AddCounter("cohort_ps_non_finite_gradients_total",
                                         "Applied pushes with a NaN or an infinity.")),
      apply_seconds(r->AddHistogram("cohort_ps_apply_seconds",
                                    "Time to apply one push section, its lock included.",
                                    ExponentialBounds(1e-6, 4, 12))),
      steps_closed(r->AddCounter("cohort_ps_steps_closed_total",
                                 "Synchronous steps that the chief has closed.")),
      staleness(
          r->AddHistogram("cohort_ps_staleness",
                          "Updates applied to a tablet between a closure's pull and its push.",
                          {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256})),
      snapshots_written(r->AddCounter("cohort_ps_snapshots_total", "Shard files written.",
                                      {{"result", "written"}})),
      snapshots_failed(r->AddCounter("cohort_ps_snapshots_total", "Shard files written.",
                                     {{"result", "failed"}})),
      snapshot_seconds(r->AddHistogram("cohort_ps_snapshot_seconds",
                                       "Time to write one snapshot in the background.",
                                       ExponentialBounds(1e-3, 4, 10))),
      partially_applied(r->AddCounter(
          "cohort_ps_partially_applied_total",
          "Updates that a restore onto another layout counts as applied though rows lack them.")),
      apply_log_errors(r->AddCounter("cohort_ps_apply_log_errors_total",
                                     "Lines that could not be written to --apply_log.")),
      rows_found_in_memory(r->AddCounter("cohort_ps_table_lookups_total",
                                         "Rows of tables that reads and updates have found.",
                                         {{"place", "memory"}})),
      rows_found_on_disk(r->AddCounter("cohort_ps_table_lookups_total",
                                       "Rows of tables that reads and updates have found.",
                                       {{"place", "disk"}})),
      generation(r->AddGauge("cohort_ps_generation", "Highest generation of a chief heard.")),
      timeline(r->AddGauge("cohort_ps_timeline", "Timeline of the tablets served.")),
      tablets(r->AddGauge("cohort_ps_tablets", "Tablets served.")),
      watermark(r->AddGauge("cohort_ps_settled_watermark", "Settled watermark heard.")) {
  static constexpr const char* kVerdicts[] = {nullptr,  "applied", "duplicate", "settled",
                                              "fenced", "moved",   "later",     "invalid",
                                              "staged", "dropped"};
  for (int i = 1; i < 10; ++i) {
    if (i != v1::LATER) {
      pushes[i] = r->AddCounter("cohort_ps_pushes_total", "Push sections by verdict.",
                                {{"verdict", kVerdicts[i]}});
    }
    if (i == v1::DUPLICATE || i == v1::SETTLED || i == v1::STAGED) continue;
    pulls[i] = r->AddCounter("cohort_ps_pulls_total", "Pull sections by status.",
                             {{"status", kVerdicts[i]}});
  }
}

}  // namespace cohort
