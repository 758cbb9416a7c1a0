#ifndef COHORT_COMMON_PLACEMENT_PLACEMENT_TEST_UTIL_H_
#define COHORT_COMMON_PLACEMENT_PLACEMENT_TEST_UTIL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

// A float32 variable; `rows`: it is read by rows.
inline v1::VariableSpec Variable(const std::string& name, std::vector<int64_t> dims,
                                 bool rows = false) {
  v1::VariableSpec variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  for (const int64_t dim : dims) variable.add_dims(dim);
  variable.set_row_reads(rows);
  return variable;
}

inline v1::PartitionerSpec FixedShards(uint64_t n) {
  v1::PartitionerSpec spec;
  spec.set_class_name("FixedShards");
  spec.set_num_shards(n);
  return spec;
}

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_PLACEMENT_TEST_UTIL_H_
