#include "common/os/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/status.h"

namespace cohort {

constexpr int64_t kMaxPollMs = 3'600'000;

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
         action.sa_handler == SIG_IGN;
}

void StopIgnoringSigchld() { ::signal(SIGCHLD, SIG_DFL); }

absl::StatusOr<std::unique_ptr<SignalWaiter>> SignalWaiter::Start() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);  // a file at its limit is an error of the write
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  if (!IsIgnored(SIGINT)) sigaddset(&set, SIGINT);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return Internal("cannot block signals: {}", std::strerror(error));
  }
  UniqueFd signal_fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  UniqueFd event_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signal_fd.ok() || !event_fd.ok()) {
    return ResourceExhausted("cannot make a signalfd: {}", std::strerror(errno));
  }
  return std::unique_ptr<SignalWaiter>(new SignalWaiter(std::move(signal_fd), std::move(event_fd)));
}

int SignalWaiter::Wait() {
  for (;;) {
    if (const auto result = WaitFor(std::chrono::hours(1))) return *result;
  }
}

std::optional<int> SignalWaiter::WaitFor(Duration timeout) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const bool done = done_;
    pollfd fds[] = {{signal_fd_.get(), POLLIN, 0}, {event_fd_.get(), POLLIN, 0}};
    const int64_t ms = done ? 0 : std::clamp<int64_t>(left.count(), 0, kMaxPollMs);
    const int ready = poll(fds, 2, static_cast<int>(ms));
    if (ready < 0 && errno == EINTR) continue;
    signalfd_siginfo info;
    if (read(signal_fd_.get(), &info, sizeof(info)) == sizeof(info)) {
      return static_cast<int>(info.ssi_signo);
    }
    if (done) return 0;
    if ((fds[1].revents & POLLIN) != 0) {
      uint64_t times;
      [[maybe_unused]] const ssize_t taken = read(event_fd_.get(), &times, sizeof(times));
      // What was taken may have been NotifyDone's.
      return done_ ? std::optional<int>(0) : std::nullopt;
    }
    if (left.count() <= 0) return std::nullopt;
  }
}

void SignalWaiter::NotifyDone() {
  done_ = true;
  Wake();
}

void SignalWaiter::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_.get(), &one, sizeof(one));
}

}  // namespace cohort
