#ifndef COHORT_COMMON_KERNELS_BROADCAST_H_
#define COHORT_COMMON_KERNELS_BROADCAST_H_

#include <array>
#include <cstdint>
#include <utility>

#include "common/base/thread_pool.h"
#include "common/kernels/kernel.h"

namespace cohort {

inline constexpr int kMaxRank = 8;

// The order in which a kernel walks N inputs that are broadcast to one output (NumPy's rules; the
// types are already checked). Axes that all inputs walk alike are merged: equal shapes make one
// axis, a scalar one axis of stride 0, a bias two axes. Strides are in elements; the innermost is 0
// or 1.
template <size_t N>
struct BroadcastPlan {
  int rank = 0;                        // number of merged axes; at least 1
  std::array<int64_t, kMaxRank> dims;  // sizes in the output, outermost first
  std::array<std::array<int64_t, N>, kMaxRank> strides;

  BroadcastPlan(const ValueView& out, const std::array<const ValueView*, N>& inputs) {
    // Built innermost first, turned around at the end.
    std::array<int64_t, N> walked;  // elements of each input inside the axis
    walked.fill(1);
    for (int axis = out.rank - 1; axis >= 0; --axis) {
      const int64_t size = out.dims[axis];
      if (size == 1) continue;
      std::array<int64_t, N> stride;
      for (size_t i = 0; i < N; ++i) {
        const int own = axis - (out.rank - inputs[i]->rank);
        const int64_t own_size = own >= 0 ? inputs[i]->dims[own] : 1;
        stride[i] = own_size == 1 ? 0 : walked[i];
        walked[i] *= own_size;
      }
      Append(size, stride);
    }
    if (rank == 0) Append(1, {});
    for (int i = 0, j = rank - 1; i < j; ++i, --j) {
      std::swap(dims[static_cast<size_t>(i)], dims[static_cast<size_t>(j)]);
      std::swap(strides[static_cast<size_t>(i)], strides[static_cast<size_t>(j)]);
    }
  }

  const std::array<int64_t, N>& inner_strides() const {
    return strides[static_cast<size_t>(rank - 1)];
  }

 private:
  void Append(int64_t size, const std::array<int64_t, N>& stride) {
    if (rank > 0) {
      const size_t last = static_cast<size_t>(rank - 1);
      bool merges = true;
      for (size_t i = 0; i < N; ++i) merges &= stride[i] == strides[last][i] * dims[last];
      if (merges) {
        dims[last] *= size;
        return;
      }
    }
    dims[static_cast<size_t>(rank)] = size;
    strides[static_cast<size_t>(rank)] = stride;
    ++rank;
  }
};

// Calls fn(out_offset, in_offsets, count) for every run along the innermost axis. Without a pool it
// does so in order and on this thread.
template <size_t N, typename Fn>
void ForEachRun(const BroadcastPlan<N>& plan, ThreadPool* pool, int64_t grain, const Fn& fn) {
  using Offsets = std::array<int64_t, N>;
  const auto split = [pool](int64_t count, int64_t part, const auto& part_fn) {
    if (pool != nullptr) return pool->ParallelFor(count, part, part_fn);
    if (count > 0) part_fn(int64_t{0}, count);
  };
  if (plan.rank == 1) {
    split(plan.dims[0], grain, [&](int64_t begin, int64_t end) {
      Offsets offsets;
      for (size_t i = 0; i < N; ++i) offsets[i] = plan.strides[0][i] * begin;
      fn(begin, offsets, end - begin);
    });
    return;
  }
  const size_t inner = static_cast<size_t>(plan.rank - 1);
  int64_t below = 1;  // elements of the output inside the outermost axis
  for (size_t axis = 1; axis <= inner; ++axis) below *= plan.dims[axis];
  if (below == 0) return;
  const int64_t rows = below >= grain ? 1 : grain / below;
  split(plan.dims[0], rows, [&](int64_t begin, int64_t end) {
    std::array<int64_t, kMaxRank> index{};
    index[0] = begin;
    Offsets offsets;
    for (size_t i = 0; i < N; ++i) offsets[i] = plan.strides[0][i] * begin;
    for (int64_t out = begin * below; out < end * below; out += plan.dims[inner]) {
      fn(out, offsets, plan.dims[inner]);
      for (size_t axis = inner; axis-- > 0;) {
        for (size_t i = 0; i < N; ++i) offsets[i] += plan.strides[axis][i];
        if (++index[axis] < plan.dims[axis] || axis == 0) break;
        for (size_t i = 0; i < N; ++i) offsets[i] -= plan.strides[axis][i] * plan.dims[axis];
        index[axis] = 0;
      }
    }
  });
}

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_BROADCAST_H_
