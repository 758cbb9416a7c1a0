#ifndef COHORT_COMMON_KERNELS_GRID_GRID_H_
#define COHORT_COMMON_KERNELS_GRID_GRID_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/device/grid.h"
#include "common/graph/op_registry.h"
#include "common/kernels/broadcast.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/device_kernel.h"
#ifndef __CUDACC__
#include "common/base/thread_pool.h"
#endif

// How the kernels of ops are written for devices: as bodies (common/device/grid.h). If the column
// `cpu` of ops.def is Grid, they are the kernels of the CPU, too.
namespace cohort::COHORT_GRID {

// Work is split so that about as many threads have some of it.
inline constexpr int64_t kBusyThreads = 1 << 16;

// Reports a value that a kernel cannot work with.
COHORT_HD inline void Report(KernelError* error, int64_t position, int64_t value) {
#ifdef __CUDA_ARCH__
  if (atomicCAS(&error->reported, 0, 1) != 0) return;
#else
  if (error->reported != 0) return;
  error->reported = 1;
#endif
  error->position = position;
  error->value = value;
}

// What a kernel reports about itself, beside its body.
struct GridTraits {
  uint32_t in_place = 0;   // a bit for each input whose memory output 0 may use
  uint32_t dims_only = 0;  // a bit for each input of which only the dims are read
  size_t scratch_bytes = 0;
  bool is_random = false;
  // For kernels that call Report: the message. Null: it does not.
  std::function<absl::Status(const KernelError&, const KernelContext&)> status_of;
};

// A kernel that has its traits as values.
class KernelWithTraits : public DeviceKernel {
 public:
  explicit KernelWithTraits(GridTraits traits) : traits_(std::move(traits)) {}

  size_t scratch_bytes() const override { return traits_.scratch_bytes; }
  bool in_place(size_t i) const override { return (traits_.in_place >> i & 1) != 0; }
  bool reads_data(size_t i) const override { return (traits_.dims_only >> i & 1) == 0; }
  bool is_random() const override { return traits_.is_random; }
  bool may_fail() const override { return traits_.status_of != nullptr; }
  absl::Status StatusOf(const KernelError& error, const KernelContext& c) const override {
    return traits_.status_of(error, c);
  }

 private:
  const GridTraits traits_;
};

// The kernel of one body. `make` returns the body of a run from its KernelContext.
template <typename Body, typename Make>
class GridKernel : public KernelWithTraits {
 public:
  GridKernel(int64_t most_items, Make make, GridTraits traits)
      : KernelWithTraits(std::move(traits)), most_items_(most_items), make_(std::move(make)) {}

  size_t body_bytes() const override { return BodyBytes<Body>(); }
  void WriteBodies(const KernelContext& c, uint8_t* to) const override {
    const Body body = make_(c);
    std::memcpy(to, &body, sizeof(Body));
  }
  void AddTo(GraphPlan* plan, const KernelContext& c, const uint8_t* bodies) const override {
    plan->Add(LaunchOf<Body>(bodies, most_items_));
  }
#ifndef __CUDACC__
  void RunOnCpu(const KernelContext& c) const override {
    const Body body = make_(c);
    if (may_fail()) return RunItems(body, 0, body.items());  // the first wrong value is reported
    c.pool->ParallelFor(body.items(), RowGrain(WorkOfItem(body)),
                        [&](int64_t begin, int64_t end) { RunItems(body, begin, end); });
  }
#endif

 private:
  const int64_t most_items_;
  const Make make_;
};

using DeviceKernelOr = absl::StatusOr<std::unique_ptr<DeviceKernel>>;

// Body is deduced: CUDA's compiler cannot name a kernel whose type is written in terms of a lambda.
template <typename Body, typename Make>
std::unique_ptr<DeviceKernel> MakeGridKernelOf(Body (Make::*)(const KernelContext&) const,
                                               int64_t most_items, Make make, GridTraits traits) {
  return std::make_unique<GridKernel<Body, Make>>(most_items, std::move(make), std::move(traits));
}

// The kernel whose bodies `make`, a lambda, returns; `most_items` at full capacity.
template <typename Make>
std::unique_ptr<DeviceKernel> MakeGridKernel(int64_t most_items, Make make,
                                             GridTraits traits = {}) {
  return MakeGridKernelOf(&Make::operator(), most_items, std::move(make), std::move(traits));
}

// Several kernels of one node, one after another. The traits are those given here.
class SequenceKernel : public KernelWithTraits {
 public:
  SequenceKernel(std::vector<std::unique_ptr<DeviceKernel>> parts, GridTraits traits)
      : KernelWithTraits(std::move(traits)), parts_(std::move(parts)) {}

  size_t body_bytes() const override {
    size_t bytes = 0;
    for (const auto& part : parts_) bytes += part->body_bytes();
    return bytes;
  }
  void WriteBodies(const KernelContext& c, uint8_t* to) const override {
    for (const auto& part : parts_) {
      part->WriteBodies(c, to);
      to += part->body_bytes();
    }
  }
  void AddTo(GraphPlan* plan, const KernelContext& c, const uint8_t* bodies) const override {
    for (const auto& part : parts_) {
      part->AddTo(plan, c, bodies);
      bodies += part->body_bytes();
    }
  }
  void RunOnCpu(const KernelContext& c) const override {
    for (const auto& part : parts_) part->RunOnCpu(c);
  }

 private:
  const std::vector<std::unique_ptr<DeviceKernel>> parts_;
};

template <typename... Parts>
std::unique_ptr<DeviceKernel> MakeSequence(GridTraits traits, Parts... parts) {
  std::vector<std::unique_ptr<DeviceKernel>> all;
  (all.push_back(std::move(parts)), ...);
  return std::make_unique<SequenceKernel>(std::move(all), std::move(traits));
}

// A body whose items are the steps of a walk: Element has
//
//   void operator()(int64_t item, const int64_t (&at)[N]) const;
//   // Optional, for runs on the CPU: items [item, item + count), whose places have this stride.
//   void Run(int64_t item, int64_t at, int64_t stride, int64_t count) const;
template <typename Element, size_t N>
struct WalkBody {
  Element element;
  Walk<N> walk;
  int64_t n;

  COHORT_HD int64_t items() const { return n; }
  COHORT_HD void operator()(int64_t item) const {
    int64_t at[N];
    walk.Find(item, at);
    element(item, at);
  }
  // The same for items [begin, end) on the CPU, run by run.
  void RunAll(int64_t begin, int64_t end) const {
    if constexpr (requires { element.Run(begin, begin, begin, end); }) {
      const int64_t stride = walk.strides[walk.rank - 1][0];
      ForEachRun(walk, begin, end, [&](int64_t item, const int64_t(&at)[N], int64_t count) {
        element.Run(item, at[0], stride, count);
      });
    } else {
      RunRuns(begin, end);
    }
  }

 private:
  // Inner strides of 0 and 1 are constants of the loop, which so becomes vector code: bit i of
  // kOnes is the stride of value i < kKnown.
  template <size_t kKnown = 0, uint32_t kOnes = 0>
  void RunRuns(int64_t begin, int64_t end) const {
    const int64_t(&stride)[N] = walk.strides[walk.rank - 1];
    if constexpr (kKnown < N) {
      if (stride[kKnown] == 0) return RunRuns<kKnown + 1, kOnes>(begin, end);
      if (stride[kKnown] == 1) return RunRuns<kKnown + 1, kOnes | 1u << kKnown>(begin, end);
    }
    ForEachRun(walk, begin, end, [&](int64_t item, const int64_t(&at)[N], int64_t count) {
      const Element own = element;  // no item changes a local
      int64_t from[N], step[N];
      for (size_t i = 0; i < N; ++i) {
        from[i] = at[i];
        step[i] = kKnown == N ? kOnes >> i & 1 : stride[i];
      }
      for (int64_t j = 0; j < count; ++j) {
        int64_t place[N];
        for (size_t i = 0; i < N; ++i) place[i] = from[i] + j * step[i];
        own(item + j, place);
      }
    });
  }
};

// Calls fn with a value of the C++ type of a floating dtype, or returns Unimplemented.
template <typename Fn>
DeviceKernelOr GridForFloating(const Node& node, DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat32) return fn(float{});
  if (dtype == DType::kFloat64) return fn(double{});
  return NoKernelFor(node, dtype);
}
template <typename Fn>
DeviceKernelOr GridForNumeric(const Node& node, DType dtype, const Fn& fn) {
  if (dtype == DType::kInt32) return fn(int32_t{});
  if (dtype == DType::kInt64) return fn(int64_t{});
  if (dtype == DType::kUint8) return fn(uint8_t{});
  return GridForFloating(node, dtype, fn);
}
// The same for an unsigned type as large as an element of the dtype.
template <typename Fn>
DeviceKernelOr GridForSize(const Node& node, DType dtype, const Fn& fn) {
  switch (SizeOf(dtype)) {
    case 1:
      return fn(uint8_t{});
    case 4:
      return fn(uint32_t{});
    case 8:
      return fn(uint64_t{});
  }
  return NoKernelFor(node, dtype);
}

// Elements of output i at full capacity.
inline int64_t MostElements(const Node& node, const Program& program, size_t output = 0) {
  return CapacityElements(program.type(node.outputs[output]));
}

// The factories, one per op or family: those of the column `grid` of ops.def.
#define OP(name, schema, cpu, grid, form, doc) \
  DeviceKernelOr Create##grid(const Node& node, const Program& program);
#include "common/graph/ops.def"

// matmul, batch_matmul, conv2d and its gradients by loops alone, without the products of a device's
// library: the float64 kernels of the CPU.
DeviceKernelOr CreateMatMulLoops(const Node& node, const Program& program);
DeviceKernelOr CreateConvolutionLoops(const Node& node, const Program& program);

// Chooses the kernel of a node on devices of this kind. Errors: Unimplemented.
DeviceKernelOr CreateGridKernel(const Node& node, const Program& program);

}  // namespace cohort::COHORT_GRID

#endif  // COHORT_COMMON_KERNELS_GRID_GRID_H_
