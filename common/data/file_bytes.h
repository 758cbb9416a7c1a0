#ifndef COHORT_COMMON_DATA_FILE_BYTES_H_
#define COHORT_COMMON_DATA_FILE_BYTES_H_

#include <absl/status/statusor.h>
#include <time.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/unique_fd.h"
#include "common/data/input_file.h"

namespace cohort {

// What tells whether a file has changed.
struct FileState {
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  bool operator==(const FileState&) const = default;
};
int64_t NanosecondsOf(const timespec& time);
// Errors: FailedPrecondition that names the file if the states differ.
absl::Status CheckSame(const FileState& now, const FileState& then, const std::string& path);

// A data file that is read in pieces, so that it need not fit into memory. Thread-safe.
class FileBytes {
 public:
  // An address (https://..., s3://...) is first fetched into the cache (files/remote_file.h). If the
  // file is that of DataOptions::range, it has only the head and the range. Errors: NotFound as
  // ReadInputFile; DataLoss for what is no regular file, and for another digest than
  // InputFile::sha256; FailedPrecondition if the file of a range has changed; those of FetchFile.
  static absl::StatusOr<FileBytes> Open(const InputFile& file, const DataOptions& options);

  // The contents of the file `path` in another form, as inflated ones, which `fd` has.
  static FileBytes OfContents(std::string path, UniqueFd fd, uint64_t size) {
    return {std::move(path), std::move(fd), size};
  }

  const std::string& path() const { return path_; }  // as the spec names it, and PublicPath
  uint64_t size() const { return size_; }
  int fd() const { return fd_.get(); }

  // Reads bytes [offset, offset + out.size()). Errors: DataLoss if the file ends before, or has
  // become shorter; Unavailable.
  absl::Status Read(uint64_t offset, std::span<std::byte> out) const;

  // Checksum of the first and the last bytes. With the size it tells other contents apart, without
  // reading a large file.
  absl::StatusOr<uint32_t> SampledCrc32() const;

 private:
  FileBytes(std::string path, UniqueFd fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  UniqueFd fd_;
  uint64_t size_;
  // Bytes from head_ on are those of the file from begin_ on.
  uint64_t head_ = 0;
  uint64_t begin_ = 0;
};

// Reads a whole file, given by its path in this process, into `bytes`, whose memory is reused.
// Errors: those of FileBytes; DataLoss for one that has more than `most` bytes.
absl::Status ReadWholeFile(const std::string& path, uint64_t most, std::string* bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILE_BYTES_H_
