#include "chief/job/job_report.h"

#include <string_view>

#include "chief/job/job_progress.h"
#include "common/report/progress.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

std::string Line(std::string_view what, std::string_view text) {
  return fmt::format("{:<12}{}\n", what, text);
}

std::string MetricsLine(std::string_view what, const std::vector<MetricTotal>& metrics) {
  return metrics.empty() ? "" : Line(what, FormatMetrics(MeansOf(metrics)));
}

std::string WholeLife(const JobReport& r) {
  std::string text = MetricsLine("training", r.training) + MetricsLine("validation", r.validation);
  std::string steps = fmt::format("{} in all, {} epochs", r.steps, r.epochs);
  if (r.examples > 0) steps += fmt::format(", {} examples", r.examples);
  text += Line("steps", steps);
  text += Line("updates", fmt::format("{} applied by {} tablets, counted by the parameter servers",
                                      r.updates, r.tablets));
  text += Line("checkpoint", r.checkpoint);
  if (!r.best_checkpoint.empty()) {
    text += Line("best", fmt::format("{}: {}", r.best_checkpoint, r.best_text));
  }
  return text;
}

std::string ThisChief(const JobReport& r) {
  const CoreCounters& counters = r.state.counters;
  const double rate =
      r.trained.seconds > 0 ? static_cast<double>(r.trained.steps) / r.trained.seconds : 0;
  std::string text = Line("speed", fmt::format("{} steps in {:.2f} s of training ({:.0f} steps/s)",
                                               r.trained.steps, r.trained.seconds, rate));
  if (r.first_step_seconds.has_value()) {
    text += Line("launch", fmt::format("first step after {:.2f} s", *r.first_step_seconds));
  }
  text += Line("closures", fmt::format("{} finished, {} run again, {} whose updates come from more "
                                       "than one attempt",
                                       counters.finished, counters.requeued, counters.mixed));
  text += Line("pushes", fmt::format("{} sections applied, {} refused as duplicates",
                                     counters.applied, counters.duplicates));
  text += Line("storage", fmt::format("{} fsyncs of the chief and {} checkpoints during training",
                                      r.trained.fsyncs, r.trained.checkpoints));
  text +=
      Line("failures", fmt::format("{} workers lost, {} parameter servers lost, {} rollbacks",
                                   counters.workers_lost, counters.ps_lost, counters.rollbacks));
  return text;
}

std::string MetricsLogLine(const MetricsLog::Summary& log) {
  if (log.directory.empty()) return "";
  if (log.failed == 0) {
    return Line("logs", fmt::format("{0}/metrics.jsonl; tensorboard --logdir {0}", log.directory));
  }
  return Line("logs", fmt::format("incomplete in {}: {} of {} records of metrics failed, first: {}",
                                  log.directory, log.failed, log.records, log.first_error));
}

}  // namespace

void JobReport::ReadManifest(const v1::Manifest& manifest) {
  tablets = static_cast<uint64_t>(manifest.tablets_size());
  updates = 0;
  for (const v1::TabletCut& tablet : manifest.tablets()) updates += tablet.version();
}

std::string JobReport::Text() const {
  if (found_finished.has_value()) {
    const std::string best = best_checkpoint.empty()
                                 ? ""
                                 : Line("best", fmt::format("{}: {}", best_checkpoint, best_text));
    return fmt::format("this job is finished: {} has its last checkpoint (step {})\n{}", checkpoint,
                       *found_finished, best);
  }
  return fmt::format(
      "\n{}{}\nSince this chief started:\n{}\nWhere the variables were:\n{}\n{}", WholeLife(*this),
      Line("settings",
           fmt::format("{} steps per closure, pull_ahead {}", steps_per_closure, pull_ahead)),
      ThisChief(*this), shard_plan, MetricsLogLine(metrics_log));
}

}  // namespace cohort
