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

// What of a spec decides which batches there are: neither how they are made, nor where a person
// gets the files and how they are checked.
v1::DatasetSpec WhatIsRead(const v1::DatasetSpec& spec);
// Whether two specs read the same records, as far as they say: what is made of these aside.
bool ReadTheSame(const v1::DatasetSpec& a, const v1::DatasetSpec& b);
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
