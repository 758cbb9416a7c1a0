#ifndef COHORT_COMMON_DEVICE_GRID_H_
#define COHORT_COMMON_DEVICE_GRID_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "common/device/graph_plan.h"
#include "common/device/host_device.h"

// How kernels for devices are written. The files that include this header are compiled twice: by
// CUDA's compiler, with COHORT_GRID = cuda, and by the ordinary one, with COHORT_GRID = simulated,
// where a kernel is a loop on the CPU. So all of their code but the launch runs in tests without a
// GPU.
//
// A kernel is a *body*: a struct that can be copied as bytes, with pointers and sizes, and
//
//   int64_t items() const;                            // of this run
//   void operator()(int64_t item) const;              // a body of elements: one thread per item
//   void operator()(const Group& g, int64_t item) const;  // of rows: a group of threads per item
//
//   // Optional, for runs on the CPU:
//   int64_t work() const;                               // elements that an item reads; else 1
//   void RunAll(int64_t begin, int64_t end) const;      // the same as all of these items
//
// Items must not depend on each other.
namespace cohort::COHORT_GRID {

inline constexpr int kThreads = 256;  // that form a block

// The threads that work on one item of a body of rows. All of them call its functions together, in
// the same order: what lies outside of the functions below, every thread computes for itself.
class Group {
 public:
  // Calls fn(i) for i in [0, n), one thread each. What they write can be read after it.
  template <typename Fn>
  COHORT_HD void ForEach(int64_t n, const Fn& fn) const {
    for (int64_t i = thread(); i < n; i += threads()) fn(i);
    Sync();
  }
  // Folds fn(i) for i in [0, n), in an order that depends on n only; `empty` is neutral.
  template <typename T, typename Fn, typename Join>
  COHORT_HD T Fold(int64_t n, T empty, const Fn& fn, const Join& join) const {
    T part = empty;
    for (int64_t i = thread(); i < n; i += threads()) part = join(part, fn(i));
    return JoinThreads(part, join);
  }
  template <typename T, typename Fn>
  COHORT_HD T Sum(int64_t n, const Fn& fn) const {
    return Fold<T>(n, T{0}, fn, [](T a, T b) { return a + b; });
  }
  // Replaces data[i] by the sum of what lies before it.
  COHORT_HD void SumBefore(int32_t* data, int64_t n) const {
    const int64_t share = (n + threads() - 1) / threads();
    const int64_t begin = std::min(n, thread() * share), end = std::min(n, begin + share);
    int32_t own = 0;
    for (int64_t i = begin; i < end; ++i) own += data[i];
    int32_t before = SumOfThreadsBefore(own);
    for (int64_t i = begin; i < end; ++i) {
      const int32_t here = data[i];
      data[i] = before;
      before += here;
    }
    Sync();
  }

 private:
#ifdef __CUDA_ARCH__
  __device__ int64_t thread() const { return threadIdx.x; }
  __device__ int64_t threads() const { return kThreads; }
  __device__ void Sync() const { __syncthreads(); }
  template <typename T, typename Join>
  __device__ T JoinThreads(T part, const Join& join) const {
    __shared__ alignas(16) unsigned char bytes[kThreads * sizeof(T)];
    T* parts = reinterpret_cast<T*>(bytes);
    parts[threadIdx.x] = part;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half)
        parts[threadIdx.x] = join(parts[threadIdx.x], parts[threadIdx.x + half]);
      __syncthreads();
    }
    const T all = parts[0];
    __syncthreads();  // before the next call writes
    return all;
  }
  __device__ int32_t SumOfThreadsBefore(int32_t own) const {
    __shared__ int32_t sums[kThreads];
    sums[threadIdx.x] = own;
    __syncthreads();
    int32_t before = 0;
    for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) before += sums[i];
    __syncthreads();
    return before;
  }
#else
  COHORT_HD int32_t SumOfThreadsBefore(int32_t) const { return 0; }
  COHORT_HD int64_t thread() const { return 0; }
  COHORT_HD int64_t threads() const { return 1; }
  COHORT_HD void Sync() const {}
  template <typename T, typename Join>
  COHORT_HD T JoinThreads(T part, const Join&) const {
    return part;
  }
#endif
};

// Adds to an integer that several threads add to, and returns what it was.
COHORT_HD inline int32_t AtomicAdd(int32_t* to, int32_t n) {
#ifdef __CUDA_ARCH__
  return atomicAdd(to, n);
#else
  const int32_t before = *to;
  *to += n;
  return before;
#endif
}

template <typename Body>
inline constexpr bool kIsOfRows = std::is_invocable_v<const Body&, const Group&, int64_t>;

#ifdef __CUDACC__
template <typename Body>
__global__ void __launch_bounds__(kThreads) RunGrid(const void* memory) {
  const Body body = *static_cast<const Body*>(memory);
  const int64_t items = body.items();
  if constexpr (kIsOfRows<Body>) {
    for (int64_t i = blockIdx.x; i < items; i += gridDim.x) body(Group(), i);
  } else {
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = first; i < items; i += threads) body(i);
  }
}
template <typename Body>
GridFunction FunctionOf() {
  return {.entry = reinterpret_cast<const void*>(&RunGrid<Body>)};
}
#else
template <typename Body>
void RunItems(const Body& body, int64_t begin, int64_t end) {
  if constexpr (requires { body.RunAll(begin, end); }) {
    body.RunAll(begin, end);
  } else {
    const Body own = body;  // no item changes a local, so its loop becomes vector code
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (kIsOfRows<Body>) {
        own(Group(), i);
      } else {
        own(i);
      }
    }
  }
}
template <typename Body>
int64_t WorkOfItem(const Body& body) {
  if constexpr (requires { body.work(); }) {
    return body.work();
  } else {
    return 1;
  }
}
template <typename Body>
void RunGrid(const void* memory) {
  const Body& body = *static_cast<const Body*>(memory);
  RunItems(body, 0, body.items());
}
template <typename Body>
GridFunction FunctionOf() {
  return {.run = &RunGrid<Body>};
}
#endif

// The bytes that a body occupies among others.
template <typename Body>
constexpr size_t BodyBytes() {
  static_assert(std::is_trivially_copyable_v<Body>);
  return (sizeof(Body) + 15) / 16 * 16;
}

// The launch of a body that will lie at this address of the device.
template <typename Body>
GridLaunch LaunchOf(const uint8_t* body, int64_t most_items) {
  return {FunctionOf<Body>(), body, kIsOfRows<Body> ? GridShape::kRows : GridShape::kElements,
          most_items};
}

}  // namespace cohort::COHORT_GRID

#endif  // COHORT_COMMON_DEVICE_GRID_H_
