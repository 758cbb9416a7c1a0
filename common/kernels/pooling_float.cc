#include "common/kernels/pooling_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/pooling_float.cc"
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
HWY_EXPORT(MaxPoolGrad);

void MaxPoolGradWindow(const float* x, const int64_t* pixels, int64_t count, const float* g,
                       float* dx, int64_t channels, bool add) {
  HWY_DYNAMIC_DISPATCH(MaxPoolGrad)(x, pixels, count, g, dx, channels, add);
}

}  // namespace cohort
#endif  // HWY_ONCE
