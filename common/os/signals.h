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

// Whether this process ignores a signal: as it was started to, by nohup or as a background job of a
// shell, where it has not set it itself. One that is blocked and read from a signalfd would come
// all the same.
bool IsIgnored(int signal);

// Gives SIGCHLD its default action. A parent may have left it ignored, which exec keeps, and then
// the system reaps children before this process can wait for them. Call it before the first child.
void StopIgnoringSigchld();

// SIGTERM and SIGINT as something that a main() waits for, together with the task's own end.
//
//   auto signals = SignalWaiter::Start();      // first, before any thread
//   ... server->OnDone([&] { signals->NotifyDone(); });
//   const int signal = signals->Wait();        // 0: done
//   return signal == 0 ? 0 : ExitCodeOfSignal(signal);
//
// Nothing runs in a signal handler: the signals are blocked in every thread and read from a
// signalfd.
class SignalWaiter {
 public:
  // Blocks SIGTERM and SIGINT in this thread and those that it starts from now on, and ignores
  // SIGPIPE and SIGXFSZ (writes fail instead). A SIGINT that is ignored stays so; SIGTERM is always
  // seen. One at a time in a process.
  static absl::StatusOr<std::unique_ptr<SignalWaiter>> Start();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Until a signal (its number) or NotifyDone (0); a signal that came first wins.
  int Wait();
  // nullopt where neither came in time, or after Wake.
  std::optional<int> WaitFor(Duration timeout);
  // Ends Wait, now and later. Thread-safe.
  void NotifyDone();
  // Ends a WaitFor, the one that waits or the next: its caller has something to look at.
  // Thread-safe.
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
