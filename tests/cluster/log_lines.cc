#include "tests/cluster/log_lines.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <utility>

namespace cohort {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

constexpr size_t kChunkBytes = 64 << 10;

// Waits for either descriptor; -1: none. False: the deadline has passed.
bool PollEither(int a, int b, SteadyClock::time_point deadline, bool* b_readable) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - SteadyClock::now());
  pollfd fds[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
  const int ready = poll(fds, 2, std::max<int>(0, static_cast<int>(left.count()) + 1));
  if (b_readable != nullptr) *b_readable = ready > 0 && fds[1].revents != 0;
  return ready > 0;
}

}  // namespace

std::string TailOf(const std::string& file, int lines) {
  std::ifstream in(file);
  std::deque<std::string> tail;
  for (std::string line; std::getline(in, line);) {
    tail.push_back(line);
    if (static_cast<int>(tail.size()) > lines) tail.pop_front();
  }
  std::string text;
  for (const std::string& line : tail) text += line + "\n";
  return text;
}

int64_t SizeOf(const std::string& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 ? info.st_size : 0;
}

bool WaitReadable(int fd, milliseconds limit) {
  return PollEither(fd, -1, SteadyClock::now() + Scaled(limit), nullptr);
}

LineFollower::LineFollower(std::string file, int64_t offset)
    : file_(std::move(file)), inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), offset_(offset) {
  const std::string directory = file_.substr(0, file_.rfind('/'));
  inotify_add_watch(inotify_.get(), directory.c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
}

std::optional<std::string> LineFollower::Next() {
  while (true) {
    const size_t end = unread_.find('\n', begin_);
    if (end != std::string::npos) {
      std::string line = unread_.substr(begin_, end - begin_);
      begin_ = end + 1;
      return line;
    }
    unread_.erase(0, std::exchange(begin_, 0));
    const UniqueFd fd(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.ok()) return std::nullopt;
    const size_t before = unread_.size();
    unread_.resize(before + kChunkBytes);
    const ssize_t got = pread(fd.get(), unread_.data() + before, kChunkBytes, offset_);
    unread_.resize(before + static_cast<size_t>(std::max<ssize_t>(0, got)));
    if (got <= 0) return std::nullopt;
    offset_ += got;
  }
}

std::optional<std::string> LineFollower::NextWanted(
    const std::function<bool(std::string_view)>& wanted) {
  while (auto line = Next()) {
    if (wanted(*line)) return line;
  }
  return std::nullopt;
}

std::optional<std::string> LineFollower::WaitFor(
    const std::function<bool(std::string_view)>& wanted, milliseconds limit, int end_fd) {
  const auto deadline = SteadyClock::now() + Scaled(limit);
  bool ended = false;
  while (true) {
    if (auto line = NextWanted(wanted)) return line;
    if (ended || !PollEither(inotify_.get(), end_fd, deadline, &ended)) return NextWanted(wanted);
    char events[4096];
    while (read(inotify_.get(), events, sizeof(events)) > 0) {
    }
  }
}

}  // namespace cohort
