#ifndef COHORT_COMMON_DATA_FINGERPRINT_H_
#define COHORT_COMMON_DATA_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/data.pb.h"

namespace cohort {

namespace v1 {
class DatasetSpec;
}  // namespace v1

// Returns the part of a spec that determines the batches: without prefetch, download addresses,
// checksums, the secrets of addresses (PublicPath), and the dtypes in which the model reads
// columns.
v1::DatasetSpec BatchDefiningPart(const v1::DatasetSpec& spec);
// Returns true if two specs name the same records, whatever their transforms are.
bool ReadTheSame(const v1::DatasetSpec& a, const v1::DatasetSpec& b);
v1::FileFingerprint MakeFileFingerprint(const std::string& path, uint64_t bytes, uint32_t crc32);

// The data that were read, and when or where: "at the chief".
struct ReadData {
  const v1::DataFingerprint& data;
  std::string_view where;
};

// Describes how the data of one spec differ that two processes have read, or one task in two
// incarnations: "a.csv has other contents (...): 3200 records here, 6400 at the chief". Returns ""
// if they do not differ.
std::string DifferenceOf(const ReadData& a, const ReadData& b);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FINGERPRINT_H_
