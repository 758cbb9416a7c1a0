#ifndef COHORT_COMMON_DATA_INPUT_FILE_H_
#define COHORT_COMMON_DATA_INPUT_FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "common/data/dataset.h"

namespace cohort {

// A data file as a spec names it.
struct InputFile {
  std::string path;    // absolute, or relative to DataOptions::data_dir
  std::string url;     // where a person gets it; may be ""
  std::string sha256;  // of the file as it lies there, hex; "" = not checked
};

// Reads a whole file, checks its SHA-256 and, where it is gzip (by its first bytes), inflates it.
// Errors: NotFound with the address, the checksum and COHORT_DATA_DIR; DataLoss (checksum, gzip
// stream) with file and offset. `crc32`, where not null: of what it returns.
absl::StatusOr<std::string> ReadInputFile(const InputFile& file, const DataOptions& options,
                                          uint32_t* crc32 = nullptr);

// Inflates gzip data of one or more members; zeros behind them are padding. `name` is for messages.
// `crc32`, where not null: of what it returns, which the members' own say at no cost.
absl::StatusOr<std::string> Gunzip(std::string_view bytes, std::string_view name,
                                   uint32_t* crc32 = nullptr);

// The SHA-256 of bytes as 64 hex digits.
std::string Sha256Hex(std::string_view bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_INPUT_FILE_H_
