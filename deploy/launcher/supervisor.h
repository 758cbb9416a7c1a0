#ifndef COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
#define COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "deploy/launcher/child.h"

namespace cohort {

struct SupervisorOptions {
  bool restart = false;                          // bring a task back that died
  Duration grace = std::chrono::seconds(10);     // from SIGTERM to SIGKILL
  Duration stopped = std::chrono::seconds(2);    // a process that stands still is then told
  Duration last_call = std::chrono::seconds(1);  // for what a chief that ended well has told to end
  Duration finish = std::chrono::seconds(120);  // for an evaluator to end by itself after the chief
  int last_lines = 12;                          // of a dead task's log that are shown
  std::function<void(std::string_view)> say;    // gets whole lines, without the newline
};

// Runs the processes of a local cluster until the chief has ended.
//
//             1                      2
//   RUNNING ────► FINISHING ──────────────────► (all gone: Run returns)
//      │              │ 3                            ▲
//      │      3       ▼                              │ 2
//      └────────► STOPPING ── 4 ──► KILLING ─────────┘
//
// 1 the chief has exited with 0: the job is done, and it has told those tasks to end that were
//   there. What has not ended after `last_call`, most likely started again too late to be told, is
//   ended in order; an evaluator ends by itself, when it has evaluated the last checkpoint (with
//   `restart` it is started again where it dies before).
// 2 the last process is gone.
// 3 a signal; the chief failed; a task failed for good; without `restart` a ps or the last worker
//   died; FINISHING has no evaluator to wait for, or took too long: all are ended in
//   order.
// 4 `grace` has passed, or a second signal: all get SIGKILL.
//
// In order: all get SIGTERM, the servers when chief and workers have ended (a worker needs them for
// the step that it has in hand), or half of `grace` has passed.
//
// A task that dies is reported with the last lines of its log. With `restart` it is started again
// after a pause (0.2 s, doubled up to 5 s while it keeps dying young). Without it, a ps that dies,
// or the last worker, ends the run with 69, because the chief would wait in vain; if the chief
// exits with 0 all the same, the run does. A worker or ps that exits with 0 was told to by the
// chief. A task that is stopped (SIGSTOP) is reported after `stopped`. Exit codes that say that
// another try would end the same way (64, 65, 66, 73, 77, 78, and of a chief 69 and 74) are final:
// the whole cluster ends with that code.
class Supervisor {
 public:
  // `specs` has one task named "chief:0". Blocks SIGINT, SIGTERM and SIGCHLD in this thread: the
  // process must have no other.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(SupervisorOptions options,
                                                            std::vector<ChildSpec> specs);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Starts all and returns the chief's exit code when no process is left: 128 + signal where a
  // signal ended the launcher (after the chief's 0: where it cut an evaluator off), the code of the
  // task that failed for good where one did (after the chief's 0: an evaluator).
  int Run();

 private:
  enum class Phase { kRunning, kFinishing, kStopping, kKilling };
  struct Task {
    ChildSpec spec;
    std::unique_ptr<Child> child{};  // none: dead
    std::optional<TimePoint> restart_at{};
    Duration pause{};         // before the next restart
    bool terminated = false;  // by this class
    bool started = false;     // once

    bool stands_still = false;
    std::optional<TimePoint> still_at{};  // then that is told; none: it was
  };

  Supervisor(SupervisorOptions options, std::vector<ChildSpec> specs, UniqueFd signal_fd);

  void Start(Task* task);
  void WaitForEvent();
  void OnSignal(int signal);
  void ReapChildren();
  // It has stopped, or continued.
  void OnStill(Task* task, bool stands_still);
  void OnExit(Task* task, int wait_status);
  // Returns whether the chief cannot continue without this task, which has died: a ps, or the last
  // worker.
  bool ChiefNeeds(std::string_view dead) const;
  // What is said of one that has ended: how, and its last lines.
  std::string LastWords(const Task& task, int wait_status) const;
  void ScheduleRestart(Task* task, Duration lived);
  void OnTimers();
  void OnTaskTimers(Task* task, TimePoint now);
  // Ends the run with this code; the first call decides.
  void Stop(int exit_code);
  void EnterFinishing();
  void ForgetRestarts(bool evaluators);
  // `last_call` has passed, or a process has ended since.
  void EndWhatIsLeft();
  // See above; `evaluators` too. Servers whose turn it is not are left to EndServers.
  void EndInOrder(bool evaluators);
  void EndServers();
  void SignalAll(int signal);
  static void Terminate(Task* task);
  // A process of these tasks, or one that is to be started again.
  bool IsAlive(bool (*which)(std::string_view task)) const;
  bool AnyAlive() const;
  TimePoint NextTimer() const;

  const SupervisorOptions options_;
  const UniqueFd signal_fd_;
  RealClock clock_;
  std::vector<Task> tasks_;
  Phase phase_ = Phase::kRunning;
  std::optional<TimePoint> phase_deadline_;
  std::optional<TimePoint> last_call_ends_;  // in FINISHING
  std::optional<TimePoint> servers_end_;  // at the latest; none: nobody ends them, or all have been
  std::optional<int> exit_code_;
  bool ended_for_lost_task_ = false;  // the chief's own 0 takes exit code 69 back
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
