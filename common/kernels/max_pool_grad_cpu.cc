// max_pool_grad of float32, by the vector code of pooling_float.h. Other pooling runs by the bodies
// of devices.
#include <algorithm>
#include <array>

#include "common/base/thread_pool.h"
#include "common/graph/ops/pooling.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/pooling_float.h"

namespace cohort {
namespace {

// The windows of one example, and its sizes. With one pooled axis there is one row.
struct PoolShape {
  ops::PoolAxis rows, columns;
  int64_t channels = 0;

  int64_t windows() const { return rows.out * columns.out; }
  int64_t in_elements() const { return rows.in * columns.in * channels; }
  int64_t window_pixels() const {
    return std::min(rows.window, rows.in) * std::min(columns.window, columns.in);
  }
  // Calls fn(offset in the example) for each pixel of window `w`, in order.
  template <typename Fn>
  void ForEachPixel(int64_t w, const Fn& fn) const {
    const int64_t row = w / columns.out, column = w % columns.out;
    for (int64_t y = rows.begin(row); y < rows.end(row); ++y) {
      for (int64_t x = columns.begin(column); x < columns.end(column); ++x) {
        fn((y * columns.in + x) * channels);
      }
    }
  }
};

// For windows of up to kMaxPixels pixels.
class MaxPoolGradKernel : public Kernel {
 public:
  static constexpr int64_t kMaxPixels = 256;

  explicit MaxPoolGradKernel(const PoolShape& shape)
      : s_(shape),
        overlaps_(shape.rows.stride < shape.rows.window ||
                  shape.columns.stride < shape.columns.window) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(1).elements == 0) return absl::OkStatus();
    const int64_t each = s_.in_elements();
    c.pool->ParallelFor(c.in(1).dims[0], RowGrain(each), [&](int64_t begin, int64_t end) {
      std::array<int64_t, kMaxPixels> pixels;
      for (int64_t example = begin; example < end; ++example) {
        const float* x = c.in(1).as<float>() + example * each;
        const float* g = c.in(0).as<float>() + example * s_.windows() * s_.channels;
        float* dx = c.out().as<float>() + example * each;
        std::fill_n(dx, each, 0.0f);
        for (int64_t w = 0; w < s_.windows(); ++w, g += s_.channels) {
          int64_t count = 0;
          s_.ForEachPixel(w, [&](int64_t at) { pixels[static_cast<size_t>(count++)] = at; });
          MaxPoolGradWindow(x, pixels.data(), count, g, dx, s_.channels, overlaps_);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
  const bool overlaps_;  // windows share pixels
};

}  // namespace

KernelOr CreateMaxPoolGradCpu(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[1]);
  const size_t axes = x.dims.size() - 2;
  PoolShape s;
  s.channels = x.dims.back().size;
  s.rows = {.in = 1, .out = 1, .window = 1, .stride = 1, .before = 0};
  if (axes == 2) {
    COHORT_ASSIGN_OR_RETURN(s.rows, ops::MakePoolAxis(node, 0, x.dims[1].size));
  }
  COHORT_ASSIGN_OR_RETURN(s.columns, ops::MakePoolAxis(node, axes - 1, x.dims[axes].size));
  if (x.dtype != DType::kFloat32 || s.window_pixels() > MaxPoolGradKernel::kMaxPixels) {
    return CreateGridCpu(node, program);
  }
  return std::make_unique<MaxPoolGradKernel>(s);
}

}  // namespace cohort
