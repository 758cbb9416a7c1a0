#ifndef COHORT_COMMON_GRAPH_VALIDATE_H_
#define COHORT_COMMON_GRAPH_VALIDATE_H_

#include <absl/status/status.h>

#include <cstdint>

#include "common/base/status.h"
#include "common/graph/program.h"

namespace cohort {

// What a program may ask for; one that comes over a wire is refused beyond.
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
};

// Checks a program from any source, so that whoever compiles it can index without looking: every
// value is made once, before it is used, by a known op with the right attributes; types are
// inferred again and must be equal to those written down; symbols are counted once (by the
// arguments or by one `unique`); pushes have their variable's shape and one entry per variable;
// metrics and weight are floating scalars. Touches no memory by an index that it has not checked,
// and multiplies no sizes that overflow.
//
// Errors: InvalidArgument naming the node, value, variable or symbol.
absl::Status ValidateProgram(const Program& program, const ProgramLimits& limits = {});

// One type by itself: a dtype, rank and sizes within limits, symbols of the program, bounded sizes
// multiples of their symbol's capacity.
absl::Status ValidateType(const Program& program, const ValueType& type, int64_t max_bytes,
                          const ProgramLimits& limits = {});

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_VALIDATE_H_
