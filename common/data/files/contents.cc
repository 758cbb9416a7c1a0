#include "common/data/files/contents.h"

#include <zlib.h>

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/status.h"
#include "common/data/files/compression.h"

namespace cohort {
namespace {

constexpr uint64_t kReadBytes = 1 << 20;

}  // namespace

absl::StatusOr<FileBytes> OpenContents(const InputFile& file, const DataOptions& options) {
  COHORT_ASSIGN_OR_RETURN(FileBytes opened, FileBytes::Open(file, options));
  return InflateIfPacked(std::move(opened), options.log);
}

absl::StatusOr<TableVector<uint8_t>> ReadContents(const FileBytes& file, uint32_t* crc32) {
  TableVector<uint8_t> contents(file.size());
  *crc32 = 0;
  for (uint64_t at = 0; at < file.size();) {
    const uint64_t size = std::min(file.size() - at, kReadBytes);
    uint8_t* const piece = contents.data() + at;
    COHORT_RETURN_IF_ERROR(file.Read(at, std::as_writable_bytes(std::span(piece, size))));
    *crc32 = static_cast<uint32_t>(crc32_z(*crc32, piece, size));
    at += size;
  }
  return contents;
}

}  // namespace cohort
