#ifndef COHORT_COMMON_GRAPH_LOSS_SCALE_H_
#define COHORT_COMMON_GRAPH_LOSS_SCALE_H_

#include <algorithm>
#include <cstdint>

namespace cohort {

// How the loss of a program with float16 products is scaled, so that small gradients do not vanish.
// The last argument of the program is the scale. Gradients are computed from the loss times the
// scale, and divided by it before they are pushed. A step whose gradient is not finite is skipped.
struct LossScaling {
  double initial = 0;         // the first scale; 0: the loss is not scaled
  uint32_t growth_steps = 0;  // finite steps after which the scale doubles; 0: it is fixed

  bool enabled() const { return initial > 0; }
  bool operator==(const LossScaling&) const = default;
};

// The scale of a job or a worker from step to step, as keras.optimizers.LossScaleOptimizer has it:
// a step whose gradient is not finite halves it, and `growth_steps` finite ones in a row double it.
// It stays in [1, 2^100], so that it never becomes 0 or infinite. Not thread-safe.
class LossScale {
 public:
  explicit LossScale(const LossScaling& rule) : LossScale(rule, rule.initial, 0) {}
  // Continues with a state that was saved. One without a scale is the first state.
  LossScale(const LossScaling& rule, double scale, uint32_t finite_steps)
      : rule_(rule),
        scale_(scale > 0 && rule.growth_steps > 0 ? scale : rule.initial),
        finite_steps_(scale > 0 ? finite_steps : 0) {}

  double scale() const { return scale_; }
  // Since the scale has changed.
  uint32_t finite_steps() const { return finite_steps_; }

  // A step has run with the scale `used`. If the scale has changed meanwhile, nothing happens.
  void OnStep(double used, bool finite) {
    if (rule_.growth_steps == 0 || used != scale_) return;
    if (!finite) {
      scale_ = std::max(scale_ / 2, kLeast);
      finite_steps_ = 0;
    } else if (++finite_steps_ >= rule_.growth_steps) {
      scale_ = std::min(scale_ * 2, kMost);
      finite_steps_ = 0;
    }
  }

 private:
  static constexpr double kLeast = 1, kMost = 0x1p100;

  LossScaling rule_;
  double scale_;
  uint32_t finite_steps_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_LOSS_SCALE_H_
