#include "common/model/losses/loss.h"

#include "common/graph/expr.h"

namespace cohort {

ClassSchema LossSchema(std::string_view name, std::vector<std::string> aliases,
                       std::string_view doc, std::vector<Argument> arguments) {
  // keras/src/losses/loss.py
  arguments.push_back(Planned(String("reduction", "").Default("sum_over_batch_size")));
  arguments.push_back(String("name", "Has no effect.").Default(SnakeCase(name)));
  arguments.push_back(String("dtype", "Has no effect: a loss has the dtype of the model.")
                          .Optional()
                          .OneOf({"float32", "float64"}));
  return {std::string(name), std::move(aliases), std::string(doc), std::move(arguments)};
}

Argument FromLogitsArgument() {
  return Bool("from_logits", "True: the prediction is a logit, not a probability.").Default(false);
}

Argument LabelSmoothingArgument() {
  return Float("label_smoothing", "Share of a label that is spread over all classes.")
      .Default(0.0)
      .Between(0, 1);
}

absl::StatusOr<Expr> ElementwiseLoss(const v1::ClassConfig& config, LayerOutput prediction,
                                     Expr label) {
  COHORT_ASSIGN_OR_RETURN(const LossClass* loss, Losses().Find(config.class_name()));
  if (!prediction.value.valid() || !label.valid()) return Expr();
  if (prediction.value.rank() < 2) {
    return InvalidArgument("the prediction needs an axis beside the batch, and is {}",
                           TypeToString(prediction.value.type()));
  }
  return loss->elementwise(Config(config), prediction, label);
}

absl::Status FitLabel(Expr* label, LayerOutput* prediction) {
  AlignRanks(label, prediction);
  const ValueType type = prediction->value.type();
  if (label->type().dims != type.dims) {
    return InvalidArgument("the label is {}, but the prediction is {}", TypeToString(label->type()),
                           TypeToString(type));
  }
  *label = Cast(*label, type.dtype);
  return absl::OkStatus();
}

void AlignRanks(Expr* label, LayerOutput* prediction) {
  const ValueType l = label->type();
  const ValueType p = prediction->value.type();
  const Dim one{1, 0};
  const auto squeezed = [](const ValueType& type) {
    return ReshapeDims(std::span<const Dim>(type.dims).first(type.dims.size() - 1));
  };
  const auto expanded = [](const ValueType& type) {
    std::vector<int64_t> dims = ReshapeDims(type.dims);
    dims.push_back(1);
    return dims;
  };
  if (l.dims.size() == p.dims.size() + 1 && l.dims.back() == one) {
    if (p.dims.size() == 1) {
      *prediction = {Reshape(prediction->value, expanded(p)), {}, prediction->mask};
    } else {
      *label = Reshape(*label, squeezed(l));
    }
  } else if (p.dims.size() == l.dims.size() + 1 && p.dims.back() == one) {
    if (l.dims.size() == 1) {
      *label = Reshape(*label, expanded(l));
    } else {
      *prediction = {Reshape(prediction->value, squeezed(p)), {}, prediction->mask};
    }
  }
}

}  // namespace cohort
