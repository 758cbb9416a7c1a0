#ifndef COHORT_COMMON_DATA_HASHING_H_
#define COHORT_COMMON_DATA_HASHING_H_

#include <array>
#include <cstdint>
#include <string_view>

namespace cohort {

// The hashes of Keras' preprocessing layers, which are those of tf.strings and tf.sparse.

// The fingerprint FarmHash64 of tf.strings.to_hash_bucket_fast.
uint64_t Fingerprint(std::string_view text);
// Joins two fingerprints, as tf.sparse.cross_hashed does.
uint64_t JoinFingerprints(uint64_t first, uint64_t second);
// SipHash-2-4 with a key, as tf.strings.to_hash_bucket_strong has it.
uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view text);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_HASHING_H_
