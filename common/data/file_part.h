#ifndef COHORT_COMMON_DATA_FILE_PART_H_
#define COHORT_COMMON_DATA_FILE_PART_H_

#include <cstdint>

#include "proto/data.pb.h"

namespace cohort {

// Returns a block of a stream's file: what a worker opens.
inline v1::FilePart PartOf(const v1::StreamFile& file, int block) {
  v1::FilePart part;
  part.set_path(file.path());
  part.set_bytes(file.bytes());
  part.set_modified_ns(file.modified_ns());
  part.set_head(file.head());
  uint64_t begin = file.head();
  for (int i = 0; i < block; ++i) begin += file.block_bytes(i);
  part.set_begin(begin);
  part.set_end(begin + file.block_bytes(block));
  part.set_records(file.block_records(block));
  return part;
}

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILE_PART_H_
