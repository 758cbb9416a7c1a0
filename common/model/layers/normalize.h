#ifndef COHORT_COMMON_MODEL_LAYERS_NORMALIZE_H_
#define COHORT_COMMON_MODEL_LAYERS_NORMALIZE_H_

#include <cstdint>
#include <vector>

#include "common/graph/program_builder.h"

namespace cohort {

// keras.config.epsilon()
inline constexpr double kKerasEpsilon = 1e-7;

// x divided by its length over these axes, or by epsilon if that is larger.
Expr UnitLength(Expr x, std::vector<int64_t> axes, double epsilon);

// (x - mean) / sqrt(variance + epsilon), with the moments over these axes.
Expr Standardized(Expr x, const std::vector<int64_t>& axes, double epsilon);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_NORMALIZE_H_
