#ifndef COHORT_COMMON_DATA_INPUT_FILE_H_
#define COHORT_COMMON_DATA_INPUT_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/data/data_options.h"

namespace cohort {

// A data file, as the spec names it.
struct InputFile {
  std::string path;    // absolute, or relative to DataOptions::data_dir
  std::string url;     // the download address, for errors; may be ""
  std::string sha256;  // checksum of the file before it is inflated, hex; "" = not checked
};

// The error for a source of files without a record: it names the first one.
absl::Status NoRecords(std::span<const InputFile> files);

// True if the path stands for the files that it matches: it has `*`, `?` or `[`.
bool IsPattern(std::string_view path);

// NotFound: where to get the file (or the files of a pattern) and where to put it. `path` is that
// of this process.
absl::Status MissingFile(const InputFile& file, const std::string& path,
                         const DataOptions& options);

// Reads a whole file, checks its SHA-256, and inflates it if its first bytes show gzip or zstd.
// Sets `crc32`, if it is not null, to the checksum of the result. Errors: NotFound with the
// address, the checksum and COHORT_DATA_DIR; DataLoss (checksum, packed stream) with file and
// offset.
absl::StatusOr<std::string> ReadInputFile(const InputFile& file, const DataOptions& options,
                                          uint32_t* crc32 = nullptr);

// Inflates gzip data of one or more members; zeros after them are padding. `name` is for messages.
// Sets `crc32`, if it is not null, to the checksum of the result, which it combines from the
// checksums of the members at no cost.
absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view name,
                                   uint32_t* crc32 = nullptr);

// Returns the SHA-256 of bytes as 64 hex digits.
std::string Sha256Hex(std::string_view bytes);
// That of an open file, which need not fit into memory. Errors: those of ErrnoStatus.
absl::StatusOr<std::string> Sha256OfFile(int fd, const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_INPUT_FILE_H_
