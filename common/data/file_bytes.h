#ifndef COHORT_COMMON_DATA_FILE_BYTES_H_
#define COHORT_COMMON_DATA_FILE_BYTES_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/unique_fd.h"
#include "common/data/input_file.h"

namespace cohort {

// A data file that is read in pieces, so that it need not fit into memory. Thread-safe.
class FileBytes {
 public:
  // An address (https://..., s3://...) is first fetched into the cache (files/remote_file.h).
  // Errors: NotFound as ReadInputFile; DataLoss for what is no regular file, and for another digest
  // than InputFile::sha256; those of FetchFile.
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
};

// Reads a whole file, given by its path in this process, into `bytes`, whose memory is reused.
// Errors: those of FileBytes; DataLoss for one that has more than `most` bytes.
absl::Status ReadWholeFile(const std::string& path, uint64_t most, std::string* bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILE_BYTES_H_
