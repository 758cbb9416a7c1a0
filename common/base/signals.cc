#include "common/base/signals.h"

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

absl::StatusOr<std::unique_ptr<SignalWaiter>> SignalWaiter::Start() {
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);  // a file at its limit is an error of the write
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return Internal("cannot block signals: {}", std::strerror(error));
  }
  const int signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  const int done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (signal_fd < 0 || done_fd < 0) {
    return ResourceExhausted("cannot make a signalfd: {}", std::strerror(errno));
  }
  return std::unique_ptr<SignalWaiter>(new SignalWaiter(signal_fd, done_fd));
}

SignalWaiter::~SignalWaiter() {
  close(signal_fd_);
  close(done_fd_);
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
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {done_fd_, POLLIN, 0}};
    const int ready = poll(fds, 2, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    signalfd_siginfo info;
    if (read(signal_fd_, &info, sizeof(info)) == sizeof(info)) {
      return static_cast<int>(info.ssi_signo);
    }
    if ((fds[1].revents & POLLIN) != 0) return 0;
    if (left.count() <= 0) return std::nullopt;
  }
}

void SignalWaiter::NotifyDone() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(done_fd_, &one, sizeof(one));
}

}  // namespace cohort
