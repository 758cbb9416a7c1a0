#ifndef COHORT_COMMON_BASE_CRC32C_H_
#define COHORT_COMMON_BASE_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace cohort {

// CRC-32C (Castagnoli, RFC 3720).
uint32_t Crc32c(std::string_view bytes);
// That of what `crc` is the checksum of, with `bytes` behind it. 0 is the checksum of nothing.
uint32_t ExtendCrc32c(uint32_t crc, std::string_view bytes);
// The same as Crc32c without special instructions; for tests.
uint32_t Crc32cByTables(std::string_view bytes);

// The checksum as TensorFlow's record files store it: rotated and offset, so that data which
// contains checksums is still protected (tensorflow/core/lib/hash/crc32c.h).
uint32_t MaskedCrc32c(std::string_view bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_CRC32C_H_
