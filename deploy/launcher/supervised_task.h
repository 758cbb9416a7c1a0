#ifndef COHORT_DEPLOY_LAUNCHER_SUPERVISED_TASK_H_
#define COHORT_DEPLOY_LAUNCHER_SUPERVISED_TASK_H_

#include <absl/status/status.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "deploy/launcher/task_process.h"

namespace cohort {

// One task of a local cluster: its process, its next restart, and whether the process is stopped.
class SupervisedTask {
 public:
  using Print = std::function<void(std::string_view line)>;
  // How a process of the task ended.
  struct Exit {
    int code = 0;        // 128 + signal if a signal killed it
    Duration ran{};      // how long it ran
    std::string report;  // for the user; "" if it exited with 0 or was asked to end
  };

  // `report_stopped`: how long the process may be stopped (SIGSTOP) before a line reports it.
  SupervisedTask(TaskCommand command, Duration report_stopped, Print print)
      : command_(std::move(command)), report_stopped_(report_stopped), print_(std::move(print)) {}
  SupervisedTask(const SupervisedTask&) = delete;

  const std::string& name() const { return command_.task; }
  bool is_chief() const { return name() == "chief:0"; }
  bool is_server() const { return name().starts_with("ps:"); }
  bool is_worker() const { return name().starts_with("worker:"); }
  // True if the job continues without this task, as long as there are others like it.
  bool is_spare() const { return is_worker() && !command_.owns_variables; }
  bool is_evaluator() const { return name().starts_with("evaluator:"); }

  bool running() const { return process_ != nullptr; }
  // True if the task runs, or will be restarted.
  bool alive() const { return running() || restart_at_.has_value(); }
  // True if the process was asked to end and still runs.
  bool ending() const { return running() && terminated_; }

  // Starts a process. Errors: those of TaskProcess::Start.
  absl::Status Start(TimePoint now);
  // Checks the process. If it has ended, returns how it ended, once.
  std::optional<Exit> Poll(TimePoint now);
  // Asks the process to end: SIGTERM, and SIGCONT if it is stopped.
  void Terminate();
  void Kill();

  // Restarts the task after a pause: 0.2 s, doubled up to 5 s while its processes run only briefly.
  void ScheduleRestart(Duration ran, TimePoint now);
  void CancelRestart() { restart_at_.reset(); }
  bool restart_due(TimePoint now) const { return restart_at_.has_value() && *restart_at_ <= now; }

  // Prints that the process is stopped, when it has been stopped for `report_stopped`.
  void ReportIfStopped(TimePoint now);
  // Returns when restart_due or ReportIfStopped has work; max(): never.
  TimePoint NextTimer() const;

 private:
  // The process was stopped or continued.
  void OnStopped(bool stopped, TimePoint now);

  const TaskCommand command_;
  const Duration report_stopped_;
  const Print print_;
  std::unique_ptr<TaskProcess> process_;  // null: no process runs
  bool started_ = false;                  // at least once
  bool terminated_ = false;
  std::optional<TimePoint> restart_at_;
  Duration pause_{};  // before the next restart
  bool stopped_ = false;
  std::optional<TimePoint> report_at_;  // when to report a stopped process; none: nothing to report
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_SUPERVISED_TASK_H_
