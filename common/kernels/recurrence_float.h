#ifndef COHORT_COMMON_KERNELS_RECURRENCE_FLOAT_H_
#define COHORT_COMMON_KERNELS_RECURRENCE_FLOAT_H_

#include <cstdint>

namespace cohort {

// What the float32 kernels of recurrences compute at each step. Vector code; a result never depends
// on the other rows.

// The floats of a matrix b[k, n] that is packed for products.
int64_t PackedFloats(int64_t k, int64_t n);
// Packs b, or its transpose if b is stored as [n, k].
void PackFloat(const float* b, bool transposed, int64_t k, int64_t n, float* packed);

// FloatRows of a matrix in memory.
struct FloatRows {
  const float* data = nullptr;
  int64_t step = 0;  // from one row to the next

  const float* row(int64_t i) const { return data + i * step; }
};
// c[m, n] = from[m, n] + a[m, k] b, which is packed. Each sum is in order of k. `from` may be c.
void MultiplyPackedFloat(int64_t m, int64_t n, int64_t k, FloatRows a, const float* packed,
                         FloatRows from, float* c, int64_t c_step);

// One row. Inputs of gates become gates; the new cell and state.
void LstmRowFloat(int64_t units, float* gates, const float* old_cell, float* cell, float* state);
// `state` has the gradient of the later steps and becomes 0; `cell` that of the cell.
void LstmGradRowFloat(int64_t units, const float* dh, const float* gates, const float* cells,
                      const float* old_cells, float* state, float* cell, float* dx);
// `product` [3 units] is that of the state and the kernel, with the bias.
void GruRowFloat(int64_t units, const float* x, const float* product, const float* old_state,
                 float* gates, float* state);
// `state` becomes the part of its gradient that does not flow through the product.
void GruGradRowFloat(int64_t units, const float* dh, const float* gates, const float* old_states,
                     float* state, float* dx, float* dproduct);
// `state` becomes 0.
void SimpleRnnGradRowFloat(int64_t units, const float* dh, const float* h, float* state, float* dx);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_RECURRENCE_FLOAT_H_
