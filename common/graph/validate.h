#ifndef COHORT_COMMON_GRAPH_VALIDATE_H_
#define COHORT_COMMON_GRAPH_VALIDATE_H_

#include <absl/status/status.h>

#include <cstdint>

#include "common/base/status.h"
#include "common/graph/program.h"
#include "common/metrics/metric_proto.h"

namespace cohort {

// The limits of a program that comes over a wire.
struct ProgramLimits {
  size_t max_nodes = size_t{1} << 18;
  size_t max_values = size_t{1} << 19;
  size_t max_symbols = 4096;
  size_t max_rank = 8;
  size_t max_name_bytes = 4096;
  size_t max_constant_bytes = size_t{64} << 20;   // all constants together
  int64_t max_value_bytes = int64_t{1} << 40;     // one value at full capacity
  int64_t max_total_bytes = int64_t{1} << 42;     // all values together
  int64_t max_variable_bytes = int64_t{1} << 48;  // one variable (only rows of it may be read)
  MetricLimits metrics;
};

// Checks a program from any source, so that a compiler can use its indices without checks. Every
// value is made once, before it is used, by a known op with the right attributes. Types are
// inferred again and must equal the stated ones. Symbols are counted once (by the arguments or by
// one `unique`). Pushes have the shape of their variable, with one push per variable. Accumulators
// of metrics are floating scalars or vectors of static size; the weight is a floating scalar, and a
// loss scale a float32 scalar. The check uses no index that it has not checked, and multiplies no
// sizes that overflow.
//
// Errors: InvalidArgument naming the node, value, variable or symbol.
absl::Status ValidateProgram(const Program& program, const ProgramLimits& limits = {});

// One type by itself: a dtype, rank and sizes within limits, symbols of the program, bounded sizes
// multiples of their symbol's capacity.
absl::Status ValidateType(const Program& program, const ValueType& type, int64_t max_bytes,
                          const ProgramLimits& limits = {});
// The type of a variable. A table without bounds has no size; its rows do.
absl::Status ValidateVariableType(const Program& program, ValueType type,
                                  const ProgramLimits& limits = {});

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_VALIDATE_H_
