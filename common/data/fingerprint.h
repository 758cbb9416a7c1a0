#ifndef COHORT_COMMON_DATA_FINGERPRINT_H_
#define COHORT_COMMON_DATA_FINGERPRINT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/data.pb.h"

namespace cohort {

v1::FileFingerprint MakeFileFingerprint(const std::string& path, uint64_t bytes, uint32_t crc32);

// What was read, and when or where: "at the chief".
struct ReadData {
  const v1::DataFingerprint& data;
  std::string_view where;
};

// How what was read of one spec twice, in two processes or two lives of one, differs: "a.csv has
// other contents (...): 3200 records here, 6400 at the chief". "": it does not.
std::string DifferenceOf(const ReadData& a, const ReadData& b);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FINGERPRINT_H_
