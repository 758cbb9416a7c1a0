#include "deploy/launcher/supervised_task.h"

#include <sys/wait.h>

#include <algorithm>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(200);
constexpr Duration kLongestPause = std::chrono::seconds(5);
constexpr Duration kBriefly = std::chrono::seconds(2);

}  // namespace

absl::Status SupervisedTask::Start(TimePoint now) {
  restart_at_.reset();
  stopped_ = false;
  report_at_.reset();
  const bool restart = std::exchange(started_, true);
  COHORT_ASSIGN_OR_RETURN(process_, TaskProcess::Start(command_, restart, now));
  return absl::OkStatus();
}

std::optional<SupervisedTask::Exit> SupervisedTask::Poll(TimePoint now) {
  while (process_ != nullptr) {
    const std::optional<int> status = process_->child()->Poll();
    if (!status.has_value()) break;
    if (!process_->child()->ended()) {
      OnStopped(WIFSTOPPED(*status), now);
      continue;
    }
    Exit exit{.code = ExitCodeOfWait(*status), .ran = now - process_->started()};
    if (exit.code != 0 && !terminated_) exit.report = process_->DescribeEnd(*status, now);
    process_.reset();
    report_at_.reset();
    return exit;
  }
  return std::nullopt;
}

void SupervisedTask::OnStopped(bool stopped, TimePoint now) {
  const bool reported = stopped_ && !report_at_.has_value();
  if (reported && !stopped && !terminated_) print_(fmt::format("{} continues", name()));
  // The process stopped while it was asked to end. It may have stopped again since SIGCONT.
  if (stopped && terminated_) process_->child()->Signal(SIGCONT);
  if (stopped == stopped_) return;
  stopped_ = stopped;
  report_at_.reset();
  if (stopped && !terminated_) report_at_ = now + report_stopped_;
}

void SupervisedTask::ReportIfStopped(TimePoint now) {
  if (!report_at_.has_value() || now < *report_at_) return;
  report_at_.reset();
  print_(fmt::format("{} is stopped and does nothing: `kill -CONT {}` lets it continue", name(),
                     process_->child()->pid()));
}

void SupervisedTask::Terminate() {
  terminated_ = true;
  if (process_ == nullptr) return;
  process_->child()->Signal(SIGTERM);
  if (stopped_) process_->child()->Signal(SIGCONT);
}

void SupervisedTask::Kill() {
  if (process_ != nullptr) process_->child()->Signal(SIGKILL);
}

void SupervisedTask::ScheduleRestart(Duration ran, TimePoint now) {
  const bool again = ran < kBriefly && pause_ > Duration::zero();
  pause_ = again ? std::min(pause_ * 2, kLongestPause) : kFirstPause;
  restart_at_ = now + pause_;
  print_(fmt::format("restarting {} in {:.1f} s", name(), ToSeconds(pause_)));
}

TimePoint SupervisedTask::NextTimer() const {
  return std::min(restart_at_.value_or(TimePoint::max()), report_at_.value_or(TimePoint::max()));
}

}  // namespace cohort
