#ifndef COHORT_TESTS_CLUSTER_LOG_LINES_H_
#define COHORT_TESTS_CLUSTER_LOG_LINES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/testing/test_time.h"

namespace cohort {

// The last lines of a file; "" where there is none.
std::string TailOf(const std::string& file, int lines);

// The size of a file in bytes; 0 where there is none.
int64_t SizeOf(const std::string& file);

using testing::Scaled;

// Waits until `fd` is readable. False: the limit, scaled, has passed.
bool WaitReadable(int fd, std::chrono::milliseconds limit);

// Reads a growing file line by line, and waits for lines that are not there yet: the kernel wakes
// it (inotify), nothing is polled.
class LineFollower {
 public:
  // From `offset` bytes on. The file may not be there yet; its directory must.
  explicit LineFollower(std::string file, int64_t offset = 0);

  // How far it has come: the byte after the last line that it gave.
  int64_t position() const { return offset_ - static_cast<int64_t>(unread_.size() - begin_); }

  // The next whole line, where there is one.
  std::optional<std::string> Next();

  // The next line that `wanted` accepts; those before it are passed over. Null when the limit,
  // scaled, has passed, or `end_fd` (-1: none) is readable, and there is no such line.
  std::optional<std::string> WaitFor(const std::function<bool(std::string_view)>& wanted,
                                     std::chrono::milliseconds limit, int end_fd = -1);

 private:
  std::optional<std::string> NextWanted(const std::function<bool(std::string_view)>& wanted);

  const std::string file_;
  const UniqueFd inotify_;
  int64_t offset_;
  std::string unread_;  // what was read and is no whole line yet, from begin_ on
  size_t begin_ = 0;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_LOG_LINES_H_
