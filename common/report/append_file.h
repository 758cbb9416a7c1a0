#ifndef COHORT_COMMON_REPORT_APPEND_FILE_H_
#define COHORT_COMMON_REPORT_APPEND_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/unique_fd.h"
#include "common/os/directory.h"

namespace cohort {

// A file that grows; every Append is one write. One thread at a time.
class AppendFile {
 public:
  // Makes the file, or goes on with it. Errors: exit 73 (74 for want of room), naming the file; a
  // FIFO, a device or a directory in its place among them.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path);

  // Errors: exit 74, naming the file (a full disk: ResourceExhausted). A part may be there then.
  absl::Status Append(std::string_view bytes);
  // Takes away what lies beyond: of a file that nobody else writes to.
  void Truncate(int64_t size);
  // Whether the last byte is a newline, or there is none: a torn line must not swallow the next
  // one.
  bool ends_with_newline() const;
  const std::string& path() const { return path_; }

 private:
  AppendFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  const std::string path_;
  const UniqueFd fd_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_APPEND_FILE_H_
