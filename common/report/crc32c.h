#ifndef COHORT_COMMON_REPORT_CRC32C_H_
#define COHORT_COMMON_REPORT_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// CRC-32C (Castagnoli, RFC 3720), by table: meant for small records.
uint32_t Crc32c(std::string_view bytes);

// As TensorFlow's record files store it: rotated and offset, so that a checksum of data that
// contains checksums stays sound (tensorflow/core/lib/hash/crc32c.h).
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_CRC32C_H_
