#include "chief/job/job_report.h"

#include <algorithm>
#include <string_view>

#include "chief/job/job_control.h"
#include "chief/job/job_progress.h"
#include "chief/job/row_report.h"
#include "common/report/progress.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// "1 worker", "2 workers".
std::string Count(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

using Lines = JobReport::Lines;

std::string Line(std::string_view what, std::string_view text) {
  return fmt::format("{:<12}{}\n", what, text);
}

std::string LinesText(const Lines& lines) {
  std::string text;
  for (const auto& [what, line] : lines) text += Line(what, line);
  return text;
}

std::string MetricsLine(std::string_view what, const std::vector<MetricState>& metrics) {
  return metrics.empty() ? "" : Line(what, FormatMetrics(ValuesOf(metrics)));
}

// A job whose loss is lost ends as any other one does.
std::string LossWarning(const std::vector<MetricState>& training) {
  const auto lost = std::ranges::find_if(training, [](const MetricState& metric) {
    return metric.name == kLossMetric && !metric.finite();
  });
  return lost == training.end()
             ? ""
             : Line("warning",
                    "the loss is infinite or NaN, and the weights probably, too: "
                    "continue from an earlier checkpoint with a smaller learning rate");
}

Lines WholeLife(const JobReport& r) {
  Lines lines;
  std::string steps = fmt::format("{} in all, ", r.steps);
  if (r.state.synchronous_steps > 0) {
    steps += fmt::format("{} synchronous, ", r.state.synchronous_steps);
  }
  steps += Count(r.epochs, r.is_stream ? "window" : "epoch");
  if (r.examples > 0) steps += ", " + Count(r.examples, "example");
  lines.emplace_back("steps", steps);
  lines.emplace_back("mode", TextOf(r.state.mode));
  lines.emplace_back("updates", fmt::format("{}, the sum of the versions of {}", r.updates,
                                            Count(r.tablets, "tablet")));
  lines.emplace_back("checkpoint", r.checkpoint);
  if (!r.best_checkpoint.empty()) {
    lines.emplace_back("best", fmt::format("{}: {}", r.best_checkpoint, r.best_text));
  }
  const ClusterCounters& lost = r.state.counters;
  lines.emplace_back(
      "failures",
      fmt::format("{} lost, {} lost, {}, {}", Count(lost.workers_lost, "worker"),
                  Count(lost.ps_lost, "parameter server"), Count(lost.rollbacks, "rollback"),
                  Count(lost.chief_restarts, "chief restart")));
  return lines;
}

// What the order of updates has cost: staleness, or waiting for the members of a step.
Lines OrderLines(const CoreCounters& counters) {
  Lines lines;
  if (counters.applied > 0) {
    const double mean =
        static_cast<double>(counters.sum_staleness) / static_cast<double>(counters.applied);
    lines.emplace_back("staleness", fmt::format("mean {:.2f}, max {} updates between pull and push",
                                                mean, counters.max_staleness));
  }
  const uint64_t skipped = counters.steps_closed > 0 ? counters.skipped : counters.not_finite_steps;
  if (skipped > 0) {
    lines.emplace_back(
        "skipped", fmt::format("{}: gradients were not finite in float16", Count(skipped, "step")));
  }
  if (counters.steps_closed > 0) {
    lines.emplace_back("waiting", fmt::format("{:.2f} s for the slowest half of the closures of {}",
                                              static_cast<double>(counters.waited_us) / 1e6,
                                              Count(counters.steps_closed, "synchronous step")));
    lines.emplace_back("dropped", fmt::format("{}, {} lost", Count(counters.dropped, "gradient"),
                                              Count(counters.lost_results, "result")));
  }
  return lines;
}

Lines ThisChief(const JobReport& r) {
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
  Lines lines = {{"speed", speed + ")"}};
  if (r.first_step_seconds.has_value()) {
    lines.emplace_back("launch", fmt::format("first step after {:.2f} s", *r.first_step_seconds));
  }
  lines.emplace_back("closures",
                     fmt::format("{} finished, {} executed again, {} applied from several attempts",
                                 counters.finished, counters.requeued, counters.mixed));
  // Synchronous steps stage what they push.
  if (counters.steps_closed == 0 || counters.applied + counters.duplicates > 0) {
    lines.emplace_back("pushes",
                       fmt::format("{} applied, {} refused", Count(counters.applied, "section"),
                                   Count(counters.duplicates, "duplicate")));
  }
  if (const ClusterRowFigures rows = RowFiguresOf(r.state); !rows.empty()) {
    lines.emplace_back("rows", RowsLine(rows));
  }
  const Lines order = OrderLines(counters);
  lines.insert(lines.end(), order.begin(), order.end());
  lines.emplace_back("storage",
                     fmt::format("{} committed, {} of the chief during training; checkpoints "
                                 "held closures back for {:.2f} s",
                                 Count(counters.cuts, "checkpoint"),
                                 Count(static_cast<uint64_t>(r.trained.fsyncs), "fsync"),
                                 static_cast<double>(counters.held_us) / 1e6));
  return lines;
}

std::string RowsText(const JobReport& r) {
  const ClusterRowFigures rows = RowFiguresOf(r.state);
  return rows.empty() ? "" : fmt::format("\nWhat steps read by rows:\n{}", RowsTable(rows));
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

JobReport::Lines JobReport::Facts() const {
  Lines lines = WholeLife(*this);
  const Lines here = ThisChief(*this);
  lines.insert(lines.end(), here.begin(), here.end());
  return lines;
}

RunSummary JobReport::Summary() const {
  RunSummary summary;
  summary.outcome = failed.empty() ? "finished" : "failed: " + failed;
  summary.steps = steps;
  summary.training_seconds = trained.seconds;
  if (trained.seconds > 0) {
    summary.steps_per_second = static_cast<double>(trained.steps) / trained.seconds;
  }
  for (size_t i = 0; i < state.workers.size(); ++i) {
    const WorkerFigures& worker = state.workers[i];
    RunSummary::Worker& figures = summary.workers.emplace_back();
    figures.name = fmt::format("worker:{}", i);
    figures.steps = worker.steps;
    if (worker.applied > 0) {
      figures.mean_staleness =
          static_cast<double>(worker.sum_staleness) / static_cast<double>(worker.applied);
    }
    if (i >= state.worker_reports.size()) continue;
    figures.sent_bytes = state.worker_reports[i].sent_bytes;
    figures.received_bytes = state.worker_reports[i].received_bytes;
  }
  for (const MetricState& metric : training) summary.metrics["train"].push_back(SummaryOf(metric));
  for (const MetricState& metric : validation) {
    summary.metrics["validation"].push_back(SummaryOf(metric));
  }
  summary.facts = Facts();
  summary.text = Text();
  return summary;
}

std::string JobReport::Text() const {
  if (found_finished.has_value()) {
    const std::string best = best_checkpoint.empty()
                                 ? ""
                                 : Line("best", fmt::format("{}: {}", best_checkpoint, best_text));
    return fmt::format("this job is finished: {} has its last checkpoint (step {})\n{}{}",
                       checkpoint, *found_finished, best, page.empty() ? "" : Line("page", page));
  }
  return fmt::format(
      "\n{}{}{}{}\nSince this chief started:\n{}\nWhere the variables were:\n{}{}\n{}{}",
      failed.empty() ? "" : Line("failed", failed),
      MetricsLine("training", training) + MetricsLine("validation", validation) +
          LossWarning(training),
      LinesText(WholeLife(*this)),
      Line("settings", Count(steps_per_closure, "step") + " per closure"),
      LinesText(ThisChief(*this)), shard_plan, RowsText(*this),
      page.empty() ? "" : Line("page", page), MetricsLogLine(metrics_log));
}

}  // namespace cohort
