#ifndef COHORT_COMMON_DATA_FEATURE_TYPE_H_
#define COHORT_COMMON_DATA_FEATURE_TYPE_H_

#include <absl/status/status.h>

#include <string>

#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A column of numbers, as a transform or an Input of a model reads it. A column of a CSV file and a
// label are scalars, {}; an Input of shape [1] takes the same bytes.
struct FeatureType {
  std::string name;
  DType dtype = DType::kInvalid;
  Dims dims;  // the shape of one record

  size_t bytes() const { return static_cast<size_t>(NumElements(dims)) * SizeOf(dtype); }
};

// Errors: InvalidArgument for a dtype or dims that no column can have.
absl::Status CheckColumnType(DType dtype, const Dims& dims);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FEATURE_TYPE_H_
