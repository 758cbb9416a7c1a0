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
  Duration last_call = std::chrono::seconds(1);       // for tasks that the chief has ended
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
// 1 The chief has exited with 0: the job is done, and the chief has asked its tasks to end. Tasks
//   that still run after `last_call` (they restarted too late for that request) are ended in order.
//   An evaluator ends by itself when it has evaluated the last checkpoint; with `restart` it is
//   restarted if it dies earlier.
// 2 The last process has ended.
// 3 One of these: a signal; the chief failed; a task failed permanently; without `restart` a ps or
//   the last worker died; FINISHING has no evaluator to wait for, or took too long. All tasks are
//   ended in order.
// 4 `grace` has passed, or a second signal has come: all tasks get SIGKILL.
//
// "In order" means: all tasks get SIGTERM. The servers get it only when the chief and the workers
// have ended (a worker needs them for its current step), or when half of `grace` has passed.
//
// When a task dies, the launcher prints the last lines of its log. With `restart` it restarts the
// task. Without it, a ps or the last worker that dies ends the run with 169, because the chief
// would wait without success; if the chief still exits with 0, so does the run. A worker or ps
// exits with 0 if the chief has asked it to end. An exit code that is not worth another try (64 to
// 79), and 169 of a chief, is final: the whole cluster ends with that code.
class Supervisor {
 public:
  // `commands` has one task named "chief:0". Blocks SIGINT, SIGTERM and SIGCHLD in this thread; the
  // process must have no other thread.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(SupervisorOptions options,
                                                            std::vector<TaskCommand> commands);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  // Kills the processes that still run.
  ~Supervisor();

  // Starts all tasks and returns when no process is left. Returns one of these: the chief's exit
  // code; 128 + signal if a signal ended the run before the chief exited with 0, or stopped an
  // evaluator; the code of the task that failed permanently.
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
  void OnTimers();
  void OnPhaseDeadline();

  void EnterFinishing();
  // Ends the remaining tasks in FINISHING, after `last_call` or when a process has ended since.
  void EndRemainingTasks();
  // Ends the run with this exit code; the first call decides it.
  void Stop(int exit_code);
  // Ends all tasks, but evaluators only if `evaluators`. EndServers later ends the servers that
  // must wait for other tasks.
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
  std::optional<TimePoint> servers_end_;     // none: servers continue, or have been ended
  std::optional<int> exit_code_;
  bool ended_for_lost_task_ = false;  // if the chief exits with 0, 0 replaces exit code 169
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
