#ifndef COHORT_COMMON_KERNELS_BROADCAST_H_
#define COHORT_COMMON_KERNELS_BROADCAST_H_

#include <algorithm>
#include <array>
#include <cstdint>

#include "common/device/host_device.h"
#include "common/kernels/kernel.h"

namespace cohort {

inline constexpr int kMaxRank = 8;

// The order in which a kernel walks the places of N values, one step per item. Axes that all values
// walk alike are merged: equal shapes make one axis, a scalar one axis of stride 0, a bias two
// axes. Plain arrays, for code of devices.
template <size_t N>
struct Walk {
  int64_t dims[kMaxRank];        // sizes of the merged axes, outermost first
  int64_t strides[kMaxRank][N];  // in elements of each value
  int rank = 0;                  // at least 1, once it has items; axes after have no values

  // N inputs that are broadcast to one output by NumPy's rules; the types are already checked. The
  // innermost strides are 0 or 1.
  static Walk Broadcast(const ValueView& out, const std::array<const ValueView*, N>& inputs) {
    Walk walk;
    bool is_line = true;  // equal shapes and scalars, the most frequent case
    int64_t line[N];
    for (size_t i = 0; i < N; ++i) {
      line[i] = inputs[i]->elements == 1 ? 0 : 1;
      is_line = is_line && (line[i] == 0 || inputs[i]->elements == out.elements);
    }
    if (is_line) {
      walk.Append(out.elements, line);
      return walk;
    }
    int64_t stride[kMaxRank][N];
    int64_t walked[N];  // elements of each input inside the axis
    std::fill_n(walked, N, 1);
    for (int axis = out.rank - 1; axis >= 0; --axis) {
      for (size_t i = 0; i < N; ++i) {
        const int own = axis - (out.rank - inputs[i]->rank);
        const int64_t own_size = own >= 0 ? inputs[i]->dims[own] : 1;
        stride[axis][i] = own_size == 1 ? 0 : walked[i];
        walked[i] *= own_size;
      }
    }
    for (int axis = 0; axis < out.rank; ++axis) {
      if (out.dims[axis] != 1) walk.Append(out.dims[axis], stride[axis]);
    }
    walk.Finish();
    return walk;
  }

  // Adds an axis inside all others.
  void Append(int64_t size, const int64_t (&stride)[N]) {
    const int last = rank - 1;
    bool merges = rank > 0;
    for (size_t i = 0; merges && i < N; ++i) merges = strides[last][i] == stride[i] * size;
    const int axis = merges ? last : rank++;
    dims[axis] = merges ? dims[axis] * size : size;
    std::copy_n(stride, N, strides[axis]);
  }
  // Makes one item of no axis.
  void Finish() {
    if (rank > 0) return;
    dims[rank++] = 1;
    std::fill_n(strides[0], N, 0);
  }

  // Sets at[i] to the place in value i of this item.
  COHORT_HD void Find(int64_t item, int64_t (&at)[N]) const {
    for (size_t i = 0; i < N; ++i) at[i] = 0;
    for (int d = rank - 1; d > 0; --d) {
      const int64_t index = item % dims[d];
      item /= dims[d];
      for (size_t i = 0; i < N; ++i) at[i] += index * strides[d][i];
    }
    for (size_t i = 0; i < N; ++i) at[i] += item * strides[0][i];
  }
};

// Calls fn(item, places, count) for the runs of items [begin, end) along the innermost axis, in
// order.
template <size_t N, typename Fn>
void ForEachRun(const Walk<N>& walk, int64_t begin, int64_t end, const Fn& fn) {
  if (begin >= end) return;
  const int last = walk.rank - 1;
  int64_t index[kMaxRank], at[N] = {};
  int64_t rest = begin;
  for (int d = last; d >= 0; --d) {
    index[d] = d > 0 ? rest % walk.dims[d] : rest;
    for (size_t i = 0; i < N; ++i) at[i] += index[d] * walk.strides[d][i];
    if (d > 0) rest /= walk.dims[d];
  }
  for (int64_t item = begin; item < end;) {
    const int64_t count =
        last == 0 ? end - item : std::min(end - item, walk.dims[last] - index[last]);
    fn(item, at, count);
    item += count;
    for (size_t i = 0; i < N; ++i) at[i] -= index[last] * walk.strides[last][i];
    index[last] = 0;
    for (int d = last; d-- > 0;) {
      for (size_t i = 0; i < N; ++i) at[i] += walk.strides[d][i];
      if (++index[d] < walk.dims[d] || d == 0) break;
      for (size_t i = 0; i < N; ++i) at[i] -= walk.strides[d][i] * walk.dims[d];
      index[d] = 0;
    }
  }
}

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_BROADCAST_H_
