#include "common/graph/loss_scale.h"

#include <algorithm>

namespace cohort {
namespace {

constexpr double kLeastScale = 1, kMostScale = 0x1p100;

}  // namespace

LossScale::LossScale(const LossScaling& rule, double scale, uint32_t finite_steps)
    : rule_(rule),
      scale_(scale > 0 && rule.growth_steps > 0 ? scale : rule.initial),
      finite_steps_(scale > 0 ? finite_steps : 0) {}

void LossScale::OnStep(double used, bool finite) {
  if (rule_.growth_steps == 0 || used != scale_) return;
  if (!finite) {
    scale_ = std::max(scale_ / 2, kLeastScale);
    finite_steps_ = 0;
  } else if (++finite_steps_ >= rule_.growth_steps) {
    scale_ = std::min(scale_ * 2, kMostScale);
    finite_steps_ = 0;
  }
}

}  // namespace cohort
