#ifndef COHORT_COMMON_DATA_FILES_CONTENTS_H_
#define COHORT_COMMON_DATA_FILES_CONTENTS_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "common/data/file_bytes.h"
#include "common/data/table_vector.h"

namespace cohort {

// Opens a data file, and inflates it if it is packed. Errors: those of FileBytes and InflateFile.
absl::StatusOr<FileBytes> OpenContents(const InputFile& file, const DataOptions& options);

// Reads all of it, and computes its checksum.
absl::StatusOr<TableVector<uint8_t>> ReadContents(const FileBytes& file, uint32_t* crc32);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILES_CONTENTS_H_
