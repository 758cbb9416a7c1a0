#ifndef COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_
#define COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/data/file_bytes.h"

namespace cohort {

// A member of a ZIP file.
struct ZipMember {
  std::string name;
  bool deflated = false;
  uint32_t crc32 = 0;   // checksum of the contents
  uint64_t bytes = 0;   // size of the contents
  uint64_t packed = 0;  // bytes in the file
  uint64_t header = 0;  // offset of its local header
};

// The members of a ZIP file (PKWARE's APPNOTE 6.3, with the 64-bit fields that numpy writes), in the
// order of its directory. Errors: DataLoss that begins with the path; InvalidArgument for encrypted
// members and methods other than store and deflate.
absl::StatusOr<std::vector<ZipMember>> ReadZipDirectory(const FileBytes& file);

// The offset of the bytes of a member, after its local header. Errors: DataLoss.
absl::StatusOr<uint64_t> FindZipMember(const FileBytes& file, const ZipMember& member);

// Reads a member, inflates it and compares its checksum. Errors: DataLoss.
absl::StatusOr<std::string> ReadZipMember(const FileBytes& file, const ZipMember& member);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_ARRAYS_ZIP_FILE_H_
