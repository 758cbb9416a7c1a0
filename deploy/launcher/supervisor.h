#ifndef COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
#define COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_

#include <absl/status/statusor.h>

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "deploy/launcher/supervised_task.h"

namespace cohort {

struct SupervisorOptions {
  bool restart = false;                               // restart a task that dies
  Duration grace = std::chrono::seconds(10);          // from SIGTERM to SIGKILL
  Duration report_stopped = std::chrono::seconds(2);  // see SupervisedTask
  Duration last_call = std::chrono::seconds(1);       // for the tasks that the chief has ended
  Duration finish = std::chrono::seconds(120);        // for the evaluator, after the chief
  SupervisedTask::Print print;                        // gets whole lines, without the newline
};

// Runs the processes of a local cluster until the chief has ended.
//
//             1                      2
//   RUNNING ────► FINISHING ──────────────────► (no process is left: Run returns)
//      │              │ 3                            ▲
//      │      3       ▼                              │ 2
//      └────────► STOPPING ── 4 ──► KILLING ─────────┘
//
// 1 The chief has exited with 0: the job is done, and the chief has told its tasks to end. What
//   still runs after `last_call` (a task that was restarted too late to be told) is ended in order.
//   An evaluator ends by itself when it has evaluated the last checkpoint; with `restart` it is
//   restarted if it dies before.
// 2 The last process has ended.
// 3 A signal; the chief failed; a task failed finally; without `restart` a ps or the last worker
//   died; FINISHING has no evaluator to wait for, or took too long. All tasks are ended in order.
// 4 `grace` has passed, or a second signal has come: all tasks get SIGKILL.
//
// In order: all tasks get SIGTERM, but the servers only when chief and workers have ended (a worker
// needs them for its current step), or when half of `grace` has passed.
//
// A task that dies is reported with the last lines of its log. With `restart` it is restarted.
// Without it, a ps that dies, or the last worker, ends the run with 69, because the chief would
// wait in vain; if the chief exits with 0 all the same, so does the run. A worker or ps that exits
// with 0 was told to by the chief. Exit codes that say that another try would end the same way
// (64, 65, 66, 73, 77, 78, and of a chief 69 and 74) are final: the whole cluster ends with that
// code.
class Supervisor {
 public:
  // `commands` has one task named "chief:0". Blocks SIGINT, SIGTERM and SIGCHLD in this thread: the
  // process must have no other.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(SupervisorOptions options,
                                                            std::vector<TaskCommand> commands);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  // Kills what still runs.
  ~Supervisor();

  // Starts all tasks and returns when no process is left. Returns the chief's exit code; 128 +
  // signal if a signal ended the run before the chief exited with 0, or cut an evaluator off; or
  // the code of the task that failed finally.
  int Run();

 private:
  enum class Phase { kRunning, kFinishing, kStopping, kKilling };
  using Exit = SupervisedTask::Exit;

  Supervisor(SupervisorOptions options, UniqueFd signal_fd)
      : options_(std::move(options)), signal_fd_(std::move(signal_fd)) {}

  void Start(SupervisedTask* task);
  // Waits for a signal or the next timer.
  void WaitForEvent();
  void OnSignal(int signal);
  void ReapProcesses();
  void OnExit(SupervisedTask* task, const Exit& exit);
  void OnExitWhileRunning(SupervisedTask* task, const Exit& exit);
  // Returns whether the chief cannot continue without this task, which has died: a ps, or the last
  // worker.
  bool ChiefNeeds(const SupervisedTask& dead) const;
  void OnTimers();
  void OnPhaseDeadline();

  void EnterFinishing();
  // In FINISHING, when `last_call` has passed or a process has ended since.
  void EndRemainingTasks();
  // Ends the run with this exit code; the first call decides it.
  void Stop(int exit_code);
  // Ends all tasks, the evaluators only if `evaluators`. Leaves servers whose turn has not come to
  // EndServers.
  void EndInOrder(bool evaluators);
  void EndServers();
  void KillAll();
  void CancelRestarts(bool evaluators);

  template <typename Predicate>
  bool AnyAlive(Predicate which) const;
  TimePoint NextTimer() const;

  const SupervisorOptions options_;
  const UniqueFd signal_fd_;
  RealClock clock_;
  std::list<SupervisedTask> tasks_;
  Phase phase_ = Phase::kRunning;
  std::optional<TimePoint> phase_deadline_;
  std::optional<TimePoint> last_call_ends_;  // in FINISHING
  std::optional<TimePoint> servers_end_;     // none: servers run on, or have been ended
  std::optional<int> exit_code_;
  bool ended_for_lost_task_ = false;  // the chief's own 0 takes exit code 69 back
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
