#ifndef COHORT_COMMON_CHECKPOINT_FILE_H_
#define COHORT_COMMON_CHECKPOINT_FILE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/os/directory.h"
#include "common/os/open_file.h"

namespace cohort {

// Continues a CRC-32 (zlib's polynomial, start from 0) over any number of bytes.
uint32_t Crc32(uint32_t crc, const void* data, size_t bytes);

// A file that is written once from front to back and must be durable. Not thread-safe.
class DurableFile {
 public:
  enum class Mode {
    kExclusive,
    kReplace,  // removes what has the name before; a link is not followed
  };

  // Errors: AlreadyExists (exclusive), those of ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<DurableFile>> Create(const std::string& path, Mode mode);

  // Appends all bytes, and lets the system begin to write what is complete to the disk. After an
  // error a part may have been written: see bytes().
  absl::Status Append(const void* data, size_t bytes);
  // Makes the file durable. `progress`: called with the bytes that have arrived on the disk since
  // the call, so that a large file does not look like a disk that does not answer. May be null.
  absl::Status Sync(const std::function<void(uint64_t bytes)>& progress = nullptr);
  // Cuts the file off after `bytes`.
  absl::Status Truncate(uint64_t bytes);
  // Gives it another name, and replaces what has that name. The caller syncs the directory.
  absl::Status RenameTo(const std::string& path);
  // Closes the file, and returns an error that the system reports only now.
  absl::Status Close();

  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  DurableFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;
  uint64_t bytes_ = 0;
  uint64_t begun_ = 0;  // those that the system writes to the disk
};

// A file that is read at any offset. Thread-safe.
class RandomFile {
 public:
  // Errors: OpenRegularFile's.
  static absl::StatusOr<std::unique_ptr<RandomFile>> Open(const std::string& path);

  // Reads exactly [offset, offset + bytes). Errors: DataLoss if the file ends before.
  absl::Status Read(uint64_t offset, void* out, size_t bytes) const;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  RandomFile(std::string path, UniqueFd fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  const std::string path_;
  const UniqueFd fd_;
  const uint64_t size_;
};

// Replaces `path` by `contents` in one step: temporary file, fsync, rename, fsync of the directory.
// After a failure or a crash the old file is unchanged.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);

// The whole file. Errors: DataLoss if it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t max_bytes);

// Makes names that were created, renamed or removed in `directory` durable.
absl::Status SyncDirectory(const std::string& directory);

// Fsyncs of files and directories that this process has made so far.
int64_t FsyncCount();

// The names in a directory, sorted; empty if there is no such directory.
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Removes a file. OK if it does not exist.
absl::Status RemoveFile(const std::string& path);

// "a/b".
std::string JoinPath(std::string_view directory, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_FILE_H_
