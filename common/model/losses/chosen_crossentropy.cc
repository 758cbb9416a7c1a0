// The string "crossentropy" of compile (get_loss of keras/src/trainers/compile_utils.py). It is no
// class of Keras.
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"

namespace cohort {
namespace {

absl::StatusOr<LossElements> ElementwiseChosen(const Config& config, LayerOutput prediction,
                                               Expr label) {
  const ValueType p = prediction.value.type();
  const ValueType l = label.type();
  const Dim one{1, 0};
  v1::ClassConfig given;
  if (p.dims.back() == one) {
    given.set_class_name("BinaryCrossentropy");
  } else if (l.dims.size() < p.dims.size() || l.dims.back() == one) {
    given.set_class_name("SparseCategoricalCrossentropy");
  } else {
    given.set_class_name("CategoricalCrossentropy");
  }
  (*given.mutable_config())["from_logits"] = ConfigOf(config.Bool("from_logits"));
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete, CompleteConfig(Losses(), given));
  return ElementwiseLoss(complete, prediction, label);
}

}  // namespace

LossClass ChosenCrossentropyLoss() {
  return {.schema = LossSchema("crossentropy", {"ce", "CE", "Crossentropy", "CrossEntropy"},
                               "BinaryCrossentropy, CategoricalCrossentropy or "
                               "SparseCategoricalCrossentropy, by the shapes of label and "
                               "prediction.",
                               {FromLogitsArgument()}),
          .elementwise = ElementwiseChosen};
}

}  // namespace cohort
