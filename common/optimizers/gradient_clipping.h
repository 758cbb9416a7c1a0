#ifndef COHORT_COMMON_OPTIMIZERS_GRADIENT_CLIPPING_H_
#define COHORT_COMMON_OPTIMIZERS_GRADIENT_CLIPPING_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace cohort {

struct Argument;

namespace v1 {
class ClassConfig;
class OptimizerSpec;
}  // namespace v1

// How an optimizer clips gradients of the mean loss before its rule sees them: clipvalue, clipnorm
// and global_clipnorm of Keras (keras/src/optimizers/base_optimizer.py). 0 counts as None, as in
// Keras.
struct GradientClipping {
  enum class Kind {
    kNone,
    kValue,       // each element
    kNorm,        // the gradient of each variable, by its norm
    kGlobalNorm,  // the gradients of all variables of the optimizer, by their common norm
  };
  Kind kind = Kind::kNone;
  double limit = 0;

  // Errors: those of CompleteOptimizer.
  static absl::StatusOr<GradientClipping> Of(const v1::OptimizerSpec& spec);

  // True if it needs a norm, so that parts of a variable cannot be clipped alone.
  bool by_norm() const { return kind == Kind::kNorm || kind == Kind::kGlobalNorm; }
  // The factor of a gradient with this norm. Not a number if a common norm is not finite.
  double ScaleOf(double norm) const;
};

// The three arguments, for the schema of every optimizer.
std::vector<Argument> ClippingArguments();
// Errors: InvalidArgument if a complete config has more than one of them; `argument` (may be null)
// receives the name of the second one.
absl::Status CheckClipping(const v1::ClassConfig& config, std::string* argument);

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_GRADIENT_CLIPPING_H_
