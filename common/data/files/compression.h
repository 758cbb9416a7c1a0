#ifndef COHORT_COMMON_DATA_FILES_COMPRESSION_H_
#define COHORT_COMMON_DATA_FILES_COMPRESSION_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/data/file_bytes.h"

namespace cohort {

class Logger;

enum class Compression { kNone, kGzip, kZstd };

// How a file is packed: its first bytes tell (at least 4 of them, if it has as many), not its
// name.
Compression CompressionOf(std::string_view start);

// No stream may inflate to more in memory: 16 GiB.
inline constexpr uint64_t kMaxInflatedBytes = uint64_t{16} << 30;

// Inflates a stream of one or more gzip members or zstd frames, piece by piece. After gzip members,
// zeros are padding.
class Inflater {
 public:
  // Takes what a piece has inflated to.
  using Sink = absl::FunctionRef<absl::Status(std::string_view bytes)>;
  // `name` is for messages. Errors: ResourceExhausted; InvalidArgument if this build lacks libzstd.
  static absl::StatusOr<std::unique_ptr<Inflater>> Create(Compression compression,
                                                          std::string_view name);
  virtual ~Inflater() = default;

  // Errors: those of `sink`; DataLoss for a damaged stream, with the byte where it is.
  virtual absl::Status Add(std::string_view piece, Sink sink) = 0;
  // Errors: DataLoss if the stream is not complete.
  virtual absl::Status Finish() = 0;
  // The checksum of all that Add has inflated.
  uint32_t crc32() const { return crc32_; }

 protected:
  uint32_t crc32_ = 0;
};

// Returns a file with the inflated contents of `file`. They lie in a temporary file without a name,
// in TMPDIR (/tmp by default), or in memory if this cannot be written. So a record of a packed file
// is found by its position, and each epoch reads it as fast as one that is not packed. An index of
// blocks would inflate a block for each record of a shuffled epoch, and gzip has no blocks. The
// price: disk space, once in each process that reads the file. If this space is memory, as that of
// a tmpfs, `log` (may be null) receives a warning. Errors: those of Inflater, which begin with the
// path; ResourceExhausted if the disk is full; those of CheckInflatedBytes for memory.
absl::StatusOr<FileBytes> InflateFile(const FileBytes& file, Compression compression,
                                      Logger* log = nullptr);
// The same, if the first bytes of the file show that it is packed.
absl::StatusOr<FileBytes> InflateIfPacked(FileBytes file, Logger* log = nullptr);

// Errors: InvalidArgument for more than kMaxInflatedBytes, which begins with `name`.
absl::Status CheckInflatedBytes(std::string_view name, uint64_t bytes, Compression compression);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILES_COMPRESSION_H_
