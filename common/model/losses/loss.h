#ifndef COHORT_COMMON_MODEL_LOSSES_LOSS_H_
#define COHORT_COMMON_MODEL_LOSSES_LOSS_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/model/layers/layer.h"

namespace cohort {

// The losses of a batch before their reduction.
struct LossElements {
  LossElements() = default;
  // Most losses return values alone.
  LossElements(Expr values, Expr mask = {}) : values(values), mask(mask) {}

  Expr values;  // [batch, ...]; a scalar: the loss of the batch as a whole
  Expr mask;    // has the same type: 0 for an element that does not count, else 1. None: all count
};

// A Keras loss: its arguments, and the function that computes it. Each has a file of its own, with
// the line of loss_list.h that names it.
struct LossClass {
  enum class Label {
    kLikePrediction,  // a label has the shape of a prediction
    kClassNumber,     // a label is one integer
  };

  ClassSchema schema;
  Label label = Label::kLikePrediction;
  // Returns the loss of every element, before the reduction, in the prediction's dtype. `label` is
  // [batch, ...] of any dtype, and both values are valid. Errors: InvalidArgument if label and
  // prediction do not match.
  std::function<absl::StatusOr<LossElements>(const Config& config, LayerOutput prediction,
                                             Expr label)>
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
Argument LastAxisArgument();  // `axis`: only -1

// Computes the loss `config`, which is complete. No value if one of the two has none. Errors:
// InvalidArgument.
absl::StatusOr<LossElements> ElementwiseLoss(const v1::ClassConfig& config, LayerOutput prediction,
                                             Expr label);

// The elements of steps that the prediction masks do not count (apply_mask of
// keras/src/losses/loss.py). A scalar is the loss of a whole batch, which Keras does not mask.
// `mask` may be none. Errors: those of CheckMask.
absl::Status MaskLoss(Expr mask, LossElements* elements);

// A loss as two sums over a batch: total / weight is the loss.
struct LossSums {
  Expr total;
  Expr weight;
  // The weight of one record, if it is the same for every record; else 0. Then the mean of the
  // losses of batches, each weighted by its records, is no quotient of these sums.
  double per_record = 0;
};

// Reduces as Keras (reduce_weighted_values of keras/src/losses/loss.py), by the argument
// `reduction` of the loss. `sample_weight` may be none. Axis 0 of
// `batch` are the records. Errors: InvalidArgument if the weights do not fit; Unimplemented for the
// reduction none.
absl::StatusOr<LossSums> ReduceLoss(const v1::ClassConfig& config, const LossElements& elements,
                                    Expr sample_weight, Expr batch);

// keras.backend.epsilon(): cross entropies clip probabilities to [epsilon, 1 - epsilon].
inline constexpr double kProbabilityEpsilon = 1e-7;

// Makes a label fit a prediction: AlignRanks, the prediction's dtype, and the same shape. Errors:
// InvalidArgument.
absl::Status FitLabel(Expr* label, LayerOutput* prediction);

// One-hot labels, of the type of the prediction `type`, from class numbers [batch, ...] or [batch,
// ..., 1]; zeros for a number that is no class. Errors: InvalidArgument.
absl::StatusOr<Expr> OneHotOf(Expr label, const ValueType& type);

// The cosine of the angle between label and prediction along the argument `axis`. Errors:
// InvalidArgument.
absl::StatusOr<Expr> CosineOf(const Config& config, LayerOutput prediction, Expr label);

// squeeze_or_expand_to_same_rank of keras/src/losses/loss.py: ranks that differ by one, with a last
// axis of 1, are made equal.
void AlignRanks(Expr* label, LayerOutput* prediction);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LOSSES_LOSS_H_
