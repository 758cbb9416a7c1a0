#ifndef COHORT_COMMON_MODEL_LOSSES_LOSS_H_
#define COHORT_COMMON_MODEL_LOSSES_LOSS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/layers/layer.h"

namespace cohort {

// A Keras loss: its arguments, and the function that computes it. Each has a file of its own, with
// the line of loss_list.h that names it.
struct LossClass {
  enum class Label {
    kLikePrediction,  // a label has the shape of a prediction
    kClassNumber,     // a label is one integer
  };

  ClassSchema schema;
  Label label = Label::kLikePrediction;
  // Returns the loss of every element, before the reduction: [batch, ...] of the prediction's
  // dtype. `label` is [batch, ...] of any dtype, and both values are valid. Errors: InvalidArgument
  // if label and prediction do not match.
  std::function<absl::StatusOr<Expr>(const Config& config, LayerOutput prediction, Expr label)>
      elementwise;

  // Error: InvalidArgument if there is no `elementwise`.
  absl::Status CheckClass() const {
    if (elementwise) return absl::OkStatus();
    return InvalidArgument("the loss {} has no function `elementwise`", schema.name);
  }
};

// All losses. A name may be Keras' class or function: BinaryCrossentropy, binary_crossentropy.
ClassRegistry<LossClass>& Losses();

// Makes the schema of a loss: its own arguments, and those that Keras gives to every loss.
ClassSchema LossSchema(std::string_view name, std::vector<std::string> aliases,
                       std::string_view doc, std::vector<Argument> arguments);
Argument FromLogitsArgument();
Argument LabelSmoothingArgument();

// Computes the loss `config`, which is complete. No value if one of the two has none. Errors:
// InvalidArgument.
absl::StatusOr<Expr> ElementwiseLoss(const v1::ClassConfig& config, LayerOutput prediction,
                                     Expr label);

// keras.backend.epsilon(): cross entropies clip probabilities to [epsilon, 1 - epsilon].
inline constexpr double kProbabilityEpsilon = 1e-7;

// Makes a label fit a prediction: AlignRanks, the prediction's dtype, and the same shape. Errors:
// InvalidArgument.
absl::Status FitLabel(Expr* label, LayerOutput* prediction);

// squeeze_or_expand_to_same_rank of keras/src/losses/loss.py: ranks that differ by one, with a last
// axis of 1, are made equal.
void AlignRanks(Expr* label, LayerOutput* prediction);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LOSSES_LOSS_H_
