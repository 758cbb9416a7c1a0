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

// A file that grows. Every Append is one write. Used by one thread at a time.
class AppendFile {
 public:
  // Creates or continues the file. Errors name the file: exit code 73 (74 on a full disk), also if
  // a FIFO, a device or a directory has its name.
  static absl::StatusOr<std::unique_ptr<AppendFile>> Open(const std::string& path);

  // Errors: exit code 74, with the file's name (a full disk: ResourceExhausted). A part of the
  // bytes may then be in the file.
  absl::Status Append(std::string_view bytes);
  // Drops everything beyond `size`. Only for a file that no other process writes.
  void Truncate(int64_t size);
  // True if the file is empty or ends with a newline. Otherwise a torn line would join the next
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
