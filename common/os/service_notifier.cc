#include "common/os/service_notifier.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "common/base/printable.h"

namespace cohort {
namespace {

constexpr size_t kMaxStatus = 400;  // bytes; `systemctl status` shows one line

int64_t Microseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// The value of a variable of the environment, which is removed; "" if it is not set.
std::string Take(const char* name) {
  const char* const value = std::getenv(name);
  const std::string copy = value == nullptr ? "" : value;
  unsetenv(name);
  return copy;
}

std::optional<int64_t> Number(const std::string& text) {
  int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace

ServiceNotifier::Options ServiceNotifier::FromEnvironment() {
  Options options;
  options.socket = Take("NOTIFY_SOCKET");
  const auto watchdog = Number(Take("WATCHDOG_USEC"));
  const std::string pid = Take("WATCHDOG_PID");
  // The watchdog may belong to the process that started this one.
  const bool own = pid.empty() || Number(pid) == getpid();
  if (own && watchdog.value_or(0) > 0) options.watchdog = std::chrono::microseconds(*watchdog);
  return options;
}

ServiceNotifier::ServiceNotifier(Options options) : options_(std::move(options)) {
  const std::string& name = options_.socket;
  sockaddr_un address = {};
  const bool valid = (name.starts_with("/") || name.starts_with("@")) && name.size() > 1 &&
                     name.size() < sizeof(address.sun_path);
  if (!valid) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (name[0] == '@') {
    address.sun_path[0] = '\0';
  } else {
    ++size;  // the zero after a path
  }
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.ok()) return;
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return;
  socket_ = std::move(socket);
}

void ServiceNotifier::Send(const std::string& message) {
  if (!socket_.ok()) return;
  // A manager that does not read must not stop the work.
  [[maybe_unused]] const ssize_t sent =
      send(socket_.get(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ServiceNotifier::Ready() {
  if (std::exchange(ready_, true)) return;
  Send("READY=1");
}

void ServiceNotifier::SetStatus(std::string_view status) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (!active() || status == status_ || now < next_status_) return;
  status_ = std::string(status);
  next_status_ = now + options_.status_interval;
  // A newline would begin another assignment.
  std::string line(status.substr(0, kMaxStatus));
  std::replace(line.begin(), line.end(), '\n', ' ');
  Send(fmt::format("STATUS={}", Printable(line)));
}

bool ServiceNotifier::watch_due() const {
  return active() && ready_ && options_.watchdog > Duration::zero() &&
         std::chrono::steady_clock::now() >= next_watch_;
}

void ServiceNotifier::Watch(const std::vector<uint64_t>& turns) {
  if (!watch_due()) return;
  const auto still = [&] {
    for (size_t i = 0; i < std::min(turns.size(), turns_.size()); ++i) {
      if (turns[i] == turns_[i]) return true;
    }
    return false;
  };
  if (turns.empty() || still()) return;
  turns_ = turns;
  next_watch_ = std::chrono::steady_clock::now() + options_.watchdog / 4;
  Send("WATCHDOG=1");
}

void ServiceNotifier::Extend(Duration time) {
  Send(fmt::format("EXTEND_TIMEOUT_USEC={}", Microseconds(time)));
}

void ServiceNotifier::Stopping(Duration time) {
  if (!std::exchange(stopping_, true)) Send("STOPPING=1");
  Extend(time);
}

}  // namespace cohort
