#ifndef COHORT_COMMON_MODEL_LAYERS_ATTENTION_MASKS_H_
#define COHORT_COMMON_MODEL_LAYERS_ATTENTION_MASKS_H_

#include <cstdint>

#include "common/graph/program_builder.h"

namespace cohort {

// Masks of scores [queries, keys], bool: true where a query attends to a key.

// A query attends to its own place and those before it.
Expr CausalMask(ProgramBuilder* builder, int64_t queries, int64_t keys);
// A query attends to places that are less than `window` from its own.
Expr WindowMask(ProgramBuilder* builder, int64_t queries, int64_t keys, int64_t window);
// Both, of which each may have no value.
Expr BothMasks(Expr a, Expr b);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_ATTENTION_MASKS_H_
