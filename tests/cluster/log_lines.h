#ifndef COHORT_TESTS_CLUSTER_LOG_LINES_H_
#define COHORT_TESTS_CLUSTER_LOG_LINES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/testing/time_test_util.h"

namespace cohort {

// The last lines of a file; "" if the file does not exist.
std::string TailOf(const std::string& file, int lines);

// The size of a file in bytes; 0 if the file does not exist.
int64_t SizeOf(const std::string& file);

using testing::Scaled;

// Waits until `fd` is readable. False: the limit, scaled, has passed.
bool WaitReadable(int fd, std::chrono::milliseconds limit);

// Reads a growing file line by line, and waits for further lines. The kernel wakes it (inotify);
// it does not poll.
class LineFollower {
 public:
  // Starts at `offset` bytes. The directory must exist; the file may be created later.
  explicit LineFollower(std::string file, int64_t offset = 0);

  // The offset of the byte after the last line that was returned.
  int64_t position() const { return offset_ - static_cast<int64_t>(unread_.size() - begin_); }

  // The next whole line, if there is one.
  std::optional<std::string> Next();

  // The next line that `wanted` accepts; skips the lines before it. Null if there is no such line
  // when the limit, scaled, has passed, or when `end_fd` (-1: none) is readable.
  std::optional<std::string> WaitFor(const std::function<bool(std::string_view)>& wanted,
                                     std::chrono::milliseconds limit, int end_fd = -1);

 private:
  std::optional<std::string> NextWanted(const std::function<bool(std::string_view)>& wanted);

  const std::string file_;
  const UniqueFd inotify_;
  int64_t offset_;
  std::string unread_;  // bytes from begin_ on that are not a whole line yet
  size_t begin_ = 0;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_LOG_LINES_H_
