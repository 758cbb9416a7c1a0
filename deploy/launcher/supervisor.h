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
  bool restart = false;                       // bring a task back that died
  Duration grace = std::chrono::seconds(10);  // from SIGTERM to SIGKILL
  Duration missed = std::chrono::seconds(4);  // for a chief that needs the missed task no more
  // For the chief to end after a ps or worker has exited with 0: longer than the 10 s that it waits
  // for those that it has told to, and the 60 s that it may delete old checkpoints for
  // (chief/chief.cc).
  Duration chief_end = std::chrono::seconds(80);
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
// 3 a signal; the chief failed; a task failed for good, or has been missed for `missed` and is not
//   started again; FINISHING has no evaluator to wait for, or took too long: all are ended in
//   order.
// 4 `grace` has passed, or a second signal: all get SIGKILL.
//
// In order: all get SIGTERM, the servers when chief and workers have ended (a worker needs them for
// the step that it has in hand), or half of `grace` has passed.
//
// A worker or ps that dies is reported with the last lines of its log; the chief decides what its
// loss means. Without `restart` a ps that dies, and the last worker, end the run with 69: the chief
// would wait for what nobody starts. A chief that was about to end needs them no more: for `missed`
// it may exit, and its 0 counts even later. With `restart` it is started again after a pause (0.2
// s, doubled up to 5 s while it keeps dying young). A worker or ps that exits with 0 has been told
// by the chief that the job is done; where the chief runs on for `chief_end` it has not, and the
// task is lost as one that died. One that stands still (SIGSTOP) is reported after `stopped`, with
// what makes it go on. Exit codes that say that another try would end
// the same way (64, 65, 66, 73, 77, 78, and of a chief 69 and 74) are final: the whole cluster ends
// with that code.
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

    // Of one that has exited with 0 before the chief.
    std::optional<TimePoint> lost_at{};  // then it is lost, unless the chief has ended
    Duration lived{};
    std::string last_words{};

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
  // It is gone, and the job is not done.
  void OnLost(Task* task, Duration lived, Duration grace);
  // Whether the chief would wait in vain: for a ps, or for any worker where the last one is gone.
  bool IsMissed(std::string_view dead) const;
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
  std::string missed_;             // the first task that is; "": none
  bool ended_for_missed_ = false;  // the chief's own 0 would take it back
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_SUPERVISOR_H_
