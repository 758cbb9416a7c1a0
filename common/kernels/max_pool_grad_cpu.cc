// max_pool_grad of float32. Other pooling runs by the bodies of devices.
#include <algorithm>
#include <array>

#include "common/base/thread_pool.h"
#include "common/graph/ops/pooling.h"
#include "common/kernels/cpu_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/max_pool_grad_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of channels from `channel`. D may have one lane.
template <class D>
HWY_INLINE void GradVector(D d, const float* x, const int64_t* pixels, int64_t count,
                           const float* g, float* dx, int64_t channel, bool add) {
  auto best = hn::LoadU(d, x + pixels[0] + channel);
  auto place = hn::Zero(d);  // the number of the pixel; small integers are exact
  for (int64_t i = 1; i < count; ++i) {
    const auto value = hn::LoadU(d, x + pixels[i] + channel);
    const auto wins = hn::And(hn::Not(hn::Le(value, best)), hn::Eq(best, best));
    best = hn::IfThenElse(wins, value, best);
    place = hn::IfThenElse(wins, hn::Set(d, static_cast<float>(i)), place);
  }
  const auto grad = hn::LoadU(d, g + channel);
  for (int64_t i = 0; i < count; ++i) {
    float* to = dx + pixels[i] + channel;
    const auto part = hn::IfThenElseZero(hn::Eq(place, hn::Set(d, static_cast<float>(i))), grad);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), part) : part, d, to);
  }
}

// The gradient of one window, for all channels: g goes to the first maximum among the pixels
// x + pixels[0], ..., x + pixels[count - 1], the first NaN before all numbers. Adds to dx at these
// pixels, or without `add` writes it there.
void MaxPoolGrad(const float* x, const int64_t* pixels, int64_t count, const float* g, float* dx,
                 int64_t channels, bool add) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t channel = 0;
  for (; channel + lanes <= channels; channel += lanes) {
    GradVector(d, x, pixels, count, g, dx, channel, add);
  }
  for (; channel < channels; ++channel) GradVector(one, x, pixels, count, g, dx, channel, add);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
namespace {

HWY_EXPORT(MaxPoolGrad);

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
          HWY_DYNAMIC_DISPATCH(MaxPoolGrad)(x, pixels.data(), count, g, dx, s_.channels, overlaps_);
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
#endif  // HWY_ONCE
