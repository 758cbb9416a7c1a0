#ifndef COHORT_COMMON_OS_SIGNALS_H_
#define COHORT_COMMON_OS_SIGNALS_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace cohort {

// True if this process ignores a signal. A parent may have set that: nohup, or a shell for a
// background job. An ignored signal would still arrive if it were blocked and read from a signalfd.
bool IsIgnored(int signal);

// Restores the default of SIGCHLD, for a program that waits for its children. Its parent may ignore
// SIGCHLD, and exec keeps that; the system would then reap the children before waitpid sees them.
// Call it before the first fork.
void ResetSigchld();

// Lets a main() wait for SIGTERM, SIGINT or the end of its own task.
//
//   auto signals = SignalWaiter::Start();      // first, before any thread
//   ... server->OnDone([&] { signals->NotifyDone(); });
//   const int signal = signals->Wait();        // 0: done
//   return signal == 0 ? 0 : ExitCodeOfSignal(signal);
//
// No code runs in a signal handler: the signals are blocked in every thread and read from a
// signalfd.
class SignalWaiter {
 public:
  // Blocks SIGTERM and SIGINT in this thread and in all threads that it starts later. Ignores
  // SIGPIPE and SIGXFSZ, so that writes fail instead. A SIGINT that the parent ignores stays
  // ignored. At most one SignalWaiter may exist in a process.
  static absl::StatusOr<std::unique_ptr<SignalWaiter>> Start();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Waits for a signal (returns its number) or NotifyDone (returns 0). A signal that came first
  // wins.
  int Wait();
  // The same with a timeout. nullopt after the timeout or after Wake.
  std::optional<int> WaitFor(Duration timeout);
  // Ends Wait, now and in later calls. Thread-safe.
  void NotifyDone();
  // Ends the current or the next WaitFor, because its caller has something to check. Thread-safe.
  void Wake();

 private:
  SignalWaiter(UniqueFd signal_fd, UniqueFd event_fd)
      : signal_fd_(std::move(signal_fd)), event_fd_(std::move(event_fd)) {}
  const UniqueFd signal_fd_;
  const UniqueFd event_fd_;
  std::atomic<bool> done_{false};
};

}  // namespace cohort

#endif  // COHORT_COMMON_OS_SIGNALS_H_
