#include "chief/job/job_report.h"

#include <string_view>

#include "chief/job/job_control.h"
#include "chief/job/job_progress.h"
#include "common/report/progress.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// "1 worker", "2 workers".
std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Line(std::string_view what, std::string_view text) {
  return fmt::format("{:<12}{}\n", what, text);
}

std::string MetricsLine(std::string_view what, const std::vector<MetricState>& metrics) {
  return metrics.empty() ? "" : Line(what, FormatMetrics(ValuesOf(metrics)));
}

std::string WholeLife(const JobReport& r) {
  std::string text = MetricsLine("training", r.training) + MetricsLine("validation", r.validation);
  std::string steps = fmt::format("{} in all, ", r.steps);
  if (r.state.synchronous_steps > 0) {
    steps += fmt::format("{} synchronous, ", r.state.synchronous_steps);
  }
  steps += Count(r.epochs, "epoch");
  if (r.examples > 0) steps += ", " + Count(r.examples, "example");
  text += Line("steps", steps);
  text += Line("mode", TextOf(r.state.mode));
  text += Line("updates", fmt::format("{}, the sum of the versions of {}", r.updates,
                                      Count(r.tablets, "tablet")));
  text += Line("checkpoint", r.checkpoint);
  if (!r.best_checkpoint.empty()) {
    text += Line("best", fmt::format("{}: {}", r.best_checkpoint, r.best_text));
  }
  const ClusterCounters& lost = r.state.counters;
  text +=
      Line("failures",
           fmt::format("{} lost, {} lost, {}, {}", Count(lost.workers_lost, "worker"),
                       Count(lost.ps_lost, "parameter server"), Count(lost.rollbacks, "rollback"),
                       Count(lost.chief_restarts, "chief restart")));
  return text;
}

// What the order of updates has cost: staleness, or waiting for the members of a step.
std::string OrderLines(const CoreCounters& counters) {
  std::string text;
  if (counters.applied > 0) {
    const double mean =
        static_cast<double>(counters.sum_staleness) / static_cast<double>(counters.applied);
    text += Line("staleness", fmt::format("mean {:.2f}, max {} updates between pull and push", mean,
                                          counters.max_staleness));
  }
  const uint64_t skipped = counters.steps_closed > 0 ? counters.skipped : counters.not_finite_steps;
  if (skipped > 0) {
    text += Line("skipped",
                 fmt::format("{}: gradients were not finite in float16", Count(skipped, "step")));
  }
  if (counters.steps_closed > 0) {
    text += Line("waiting", fmt::format("{:.2f} s for the slowest half of the closures of {}",
                                        static_cast<double>(counters.waited_us) / 1e6,
                                        Count(counters.steps_closed, "synchronous step")));
    text += Line("dropped", fmt::format("{}, {} lost", Count(counters.dropped, "gradient"),
                                        Count(counters.lost_results, "result")));
  }
  return text;
}

std::string ThisChief(const JobReport& r) {
  const CoreCounters& counters = r.state.counters;
  const auto rate = [&r](uint64_t steps) {
    return r.trained.seconds > 0 ? static_cast<double>(steps) / r.trained.seconds : 0;
  };
  std::string speed =
      fmt::format("{} in {:.2f} s of training ({:.0f} steps/s", Count(r.trained.steps, "step"),
                  r.trained.seconds, rate(r.trained.steps));
  if (counters.steps_closed > 0) {
    speed += fmt::format(", {:.0f} synchronous steps/s", rate(counters.steps_closed));
  }
  std::string text = Line("speed", speed + ")");
  if (r.first_step_seconds.has_value()) {
    text += Line("launch", fmt::format("first step after {:.2f} s", *r.first_step_seconds));
  }
  text += Line("closures",
               fmt::format("{} finished, {} executed again, {} applied from several attempts",
                           counters.finished, counters.requeued, counters.mixed));
  // Synchronous steps stage what they push.
  if (counters.steps_closed == 0 || counters.applied + counters.duplicates > 0) {
    text += Line("pushes", fmt::format("{} applied, {} refused", Count(counters.applied, "section"),
                                       Count(counters.duplicates, "duplicate")));
  }
  text += OrderLines(counters);
  text += Line("storage", fmt::format("{} committed, {} of the chief during training; checkpoints "
                                      "held closures back for {:.2f} s",
                                      Count(counters.cuts, "checkpoint"),
                                      Count(static_cast<uint64_t>(r.trained.fsyncs), "fsync"),
                                      static_cast<double>(counters.held_us) / 1e6));
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
  return fmt::format("\n{}{}\nSince this chief started:\n{}\nWhere the variables were:\n{}\n{}",
                     WholeLife(*this),
                     Line("settings", Count(steps_per_closure, "step") + " per closure"),
                     ThisChief(*this), shard_plan, MetricsLogLine(metrics_log));
}

}  // namespace cohort
