// What a job runner tells: progress, metrics, checkpoints by policy, the final report.
#include <algorithm>
#include <cmath>
#include <utility>

#include "chief/job/job_runner.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/placement/shard_plan.h"
#include "common/report/progress.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

std::string ShardPlan(const ClusterCoordinator& cluster) { return ShardPlanText(cluster.layout()); }

namespace {

// Deletes the records. The files that number the generations stay: tasks may have heard of them.
absl::Status DeleteJournals(const std::string& directory, const MayWrite& may_write) {
  COHORT_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory));
  for (const std::string& name : names) {
    if (name.rfind("journal-", 0) != 0) continue;
    COHORT_RETURN_IF_ERROR(may_write());
    COHORT_RETURN_IF_ERROR(RemoveFile(JoinPath(directory, name)));
  }
  return SyncDirectory(directory);
}

}  // namespace

absl::Status DeleteFormerRuns(const std::string& checkpoint_dir, const MayWrite& may_write) {
  const std::string journal = JoinPath(checkpoint_dir, "journal");
  // Fails before anything is deleted if another file has the journal's name.
  COHORT_RETURN_IF_ERROR(MakeDirectories(journal));
  COHORT_ASSIGN_OR_RETURN(const auto entries, ListCheckpoints(checkpoint_dir));
  for (const CheckpointEntry& entry : entries) {
    COHORT_CRASH_POINT("chief.fresh.deleting");
    COHORT_RETURN_IF_ERROR(may_write());
    COHORT_RETURN_IF_ERROR(DeleteCheckpoint(entry.directory));
  }
  COHORT_CRASH_POINT("chief.fresh.deleting");
  return DeleteJournals(journal, may_write);
}

void JobRunner::CheckpointWhenDue(const CoordinatorState& state) {
  const v1::CheckpointSpec& spec = plan_->spec().checkpoint();
  const bool by_steps =
      spec.every_steps() > 0 && state.steps >= steps_at_checkpoint_ + spec.every_steps();
  const bool by_time =
      spec.every_seconds() > 0 &&
      ToSeconds(options_.clock->Now() - time_of_checkpoint_) >= spec.every_seconds();
  if (!by_steps && !by_time) return;
  steps_at_checkpoint_ = state.steps;
  time_of_checkpoint_ = options_.clock->Now();
  const absl::Status status = cluster_->StartCheckpoint();
  if (!status.ok()) options_.log->Failure(LogLevel::kWarning, "checkpoint_failed", status);
}

void JobRunner::WarnWhenNotFinite(const CoordinatorState& state) {
  if (state.not_finite == 0 || warned_not_finite_) return;
  warned_not_finite_ = true;
  const uint64_t step = state.first_not_finite_step;
  const uint64_t epoch = (std::max<uint64_t>(step, 1) - 1) / plan_->steps_per_epoch() + 1;
  const auto wrong = std::find_if(state.metrics.begin(), state.metrics.end(),
                                  [](const MetricTotal& m) { return !std::isfinite(m.total); });
  const std::string name = wrong == state.metrics.end() ? "loss" : wrong->name;
  options_.log->Warning("not_finite", {{"metric", name}, {"epoch", epoch}, {"step", step}});
  Say(fmt::format(
      "warning: {} is infinite or no number at step {}, epoch {}, and the weights are likely to "
      "stay so; training goes on. Try a smaller learning rate, and look for values in the data "
      "that are very large",
      name, step, epoch));
}

void JobRunner::TellProgress(const CoordinatorState& state, uint64_t epoch,
                             const std::string& note) {
  const uint64_t every = plan_->spec().report().every_steps();
  if (note.empty() && every > 0 && state.steps >= steps_at_report_ + every &&
      !state.metrics.empty()) {
    MetricsRecord record{.set = "train", .kind = "step", .epoch = epoch, .step = state.steps};
    const double seconds = ToSeconds(options_.clock->Now() - time_of_report_);
    for (const MetricTotal& metric : state.metrics) {
      record.metrics.emplace_back(metric.name, metric.mean());
    }
    if (seconds > 0) {
      record.steps_per_second = static_cast<double>(state.steps - steps_at_report_) / seconds;
    }
    steps_at_report_ = state.steps;
    time_of_report_ = options_.clock->Now();
    Report(std::move(record));
  }
  const bool end = !note.empty();
  MutexLock lock(&progress_mu_);
  if (!end && !options_.progress->due()) return;
  const double seconds = ToSeconds(options_.clock->Now() - time_of_progress_);
  Progress progress{.epoch = epoch + 1, .epochs = plan_->epochs()};
  progress.steps = plan_->steps_per_epoch();
  progress.step =
      std::min(state.steps - std::min(state.steps, epoch * progress.steps), progress.steps);
  if (!end && seconds > 0 && state.steps >= steps_at_progress_) {
    progress.steps_per_second = static_cast<double>(state.steps - steps_at_progress_) / seconds;
  } else {
    progress.steps_per_second = steps_per_second_;
  }
  for (const MetricTotal& metric : state.metrics) {
    progress.metrics.emplace_back(metric.name, metric.mean());
  }
  steps_at_progress_ = state.steps;
  time_of_progress_ = options_.clock->Now();
  if (end) {
    options_.progress->Line(FormatProgress(progress));
  } else {
    options_.progress->Update(progress);
  }
}

void JobRunner::Say(const std::string& line) {
  MutexLock lock(&progress_mu_);
  options_.progress->Line(line);
}

void JobRunner::OnWait(const std::string& what) {
  Say(what);
  MutexLock lock(&mu_);
  if (told_) doing_ = what;
}

void JobRunner::Report(MetricsRecord record) {
  if (reporter_ == nullptr) return;
  ++report_.reports;
  const absl::Status status = reporter_->Report(record);
  if (status.ok()) return;
  const std::string why(status.message());
  if (report_errors_.insert(why).second) {
    options_.log->Failure(LogLevel::kWarning, "report_failed", status);
  }
  if (report_.reports_failed++ > 0) return;
  report_.report_error = why;
  Say(fmt::format("warning: metrics are not stored: {}; training goes on without them", why));
}

std::string JobReport::Text() const {
  const std::string best = best_checkpoint.empty()
                               ? ""
                               : fmt::format("best        {}: {}\n", best_checkpoint, best_text);
  if (found_finished.has_value()) {
    return fmt::format("this job is finished: {} has its last checkpoint (step {})\n{}", checkpoint,
                       *found_finished, best);
  }
  std::string text = "\n";
  const auto line = [&](const char* what, const std::vector<MetricTotal>& metrics) {
    if (metrics.empty()) return;
    Scalars means;
    for (const MetricTotal& metric : metrics) means.emplace_back(metric.name, metric.mean());
    text += fmt::format("{:<12}{}\n", what, FormatMetrics(means));
  };
  line("training", training);
  line("validation", validation);
  const double rate = training_seconds > 0 ? static_cast<double>(steps) / training_seconds : 0;
  text += fmt::format("steps       {} in all, {} in {:.2f} s of training here ({:.0f} steps/s)\n",
                      state.steps, steps, training_seconds, rate);
  text += fmt::format(
      "closures    {} finished, {} run again, {} mixed; {} push sections applied, {} refused as "
      "duplicates\n",
      state.finished, state.requeued, state.mixed, state.applied, state.duplicates);
  text += fmt::format(
      "terms       {} steps per closure, pull_ahead {}; {} fsyncs of the chief and {} checkpoints "
      "while it trained\n",
      steps_per_closure, pull_ahead, fsyncs, checkpoints);
  text += fmt::format("updates     {} applied by {} tablets, as the parameter servers count them\n",
                      updates, tablets);
  if (first_step_seconds.has_value()) {
    text += fmt::format("launch      first step after {:.2f} s\n", *first_step_seconds);
  }
  text += fmt::format("failures    {} workers lost, {} parameter servers lost, {} restores\n",
                      state.workers_lost, state.ps_lost, restores);
  text += "\nWhere the variables were:\n" + shard_plan + "\n";
  text += fmt::format("checkpoint  {}\n{}", checkpoint, best);
  if (reports_failed > 0) {
    text +=
        fmt::format("logs        incomplete in {}: {} of {} reports of metrics failed, first: {}\n",
                    log_dir, reports_failed, reports, report_error);
  } else if (!log_dir.empty()) {
    text += fmt::format("logs        {0}/metrics.jsonl; tensorboard --logdir {0}\n", log_dir);
  }
  return text;
}

}  // namespace cohort
