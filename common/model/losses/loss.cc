#include "common/model/losses/loss.h"

#include <numeric>

#include "common/graph/expr.h"
#include "common/model/layers/masks.h"
#include "common/model/losses/sample_weight.h"

namespace cohort {

ClassSchema LossSchema(std::string_view name, std::vector<std::string> aliases,
                       std::string_view doc, std::vector<Argument> arguments) {
  // keras/src/losses/loss.py
  arguments.push_back(
      String("reduction",
             "How the losses of a batch become one number. `none` is refused: a step needs one.")
          .Default("sum_over_batch_size")
          .OneOf({"sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none"})
          .OrNone());
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

Argument LastAxisArgument() { return Planned(Int("axis", "").Default(-1)); }

absl::StatusOr<LossElements> ElementwiseLoss(const v1::ClassConfig& config, LayerOutput prediction,
                                             Expr label) {
  COHORT_ASSIGN_OR_RETURN(const LossClass* loss, Losses().Find(config.class_name()));
  if (!prediction.value.valid() || !label.valid()) return LossElements();
  if (prediction.value.rank() < 2) {
    return InvalidArgument("the prediction needs an axis beside the batch, and is {}",
                           TypeToString(prediction.value.type()));
  }
  return loss->elementwise(Config(config), prediction, label);
}

absl::Status MaskLoss(Expr mask, LossElements* elements) {
  if (!mask.valid() || !elements->values.valid() || elements->values.rank() == 0) {
    return absl::OkStatus();
  }
  COHORT_RETURN_IF_ERROR(CheckMask(mask, elements->values.type()));
  elements->values = WithoutMasked(elements->values, mask);
  const Expr counts = BroadcastLike(
      Cast(MaskOver(mask, elements->values.rank()), elements->values.dtype()), elements->values);
  elements->mask = elements->mask.valid() ? elements->mask * counts : counts;
  return absl::OkStatus();
}

namespace {

// The sums for a divisor that is no fixed number for each record. As in Keras, a divisor of 0 makes
// the loss 0; the tiny weight then vanishes beside those of other batches.
LossSums ByWeight(Expr total, Expr weight) {
  const auto number = [&](double value) { return total.builder()->Scalar(value, total.dtype()); };
  const Expr is_zero = Equal(weight, number(0));
  return {Select(is_zero, number(0), total), Select(is_zero, number(1e-30), weight)};
}

}  // namespace

absl::StatusOr<LossSums> ReduceLoss(const v1::ClassConfig& config, const LossElements& elements,
                                    Expr sample_weight, Expr batch) {
  const bool is_none = Config(config).IsNone("reduction");
  const std::string reduction = is_none ? "none" : Config(config).String("reduction");
  if (reduction == "none") {
    return Unimplemented(
        "{}: the reduction none leaves a loss for each record, and a step needs one number: leave "
        "out `reduction`",
        config.class_name());
  }
  Expr values = elements.values;
  if (!values.valid()) return LossSums{};
  const bool is_scalar = values.rank() == 0;
  Expr weight;
  if (sample_weight.valid()) {
    const ValueType type = is_scalar ? ValueType{values.dtype(), {}} : values.type();
    if (is_scalar) {
      weight = Cast(sample_weight, type.dtype);
    } else {
      COHORT_ASSIGN_OR_RETURN(weight, AlignWeight(sample_weight, type));
    }
    values = values * weight;
  }
  if (elements.mask.valid()) {
    values = values * elements.mask;
    weight = weight.valid() ? weight * elements.mask : elements.mask;
  }
  const bool is_mean = reduction == "sum_over_batch_size" || reduction == "mean";
  const bool by_weight = reduction == "mean_with_sample_weight" && weight.valid();
  if (values.rank() == 0 || reduction == "sum") {
    const Expr records = DimSize(batch, 0, values.dtype());
    return LossSums{ReduceSum(values) * records, records, 1};
  }
  const Expr total = ReduceSum(values);
  if (by_weight) return ByWeight(total, ReduceSum(weight));
  if (is_mean && elements.mask.valid()) return ByWeight(total, ReduceSum(elements.mask));
  return LossSums{total, NumElements(values),
                  static_cast<double>(ElementsPerRecord(values.type()))};
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

absl::StatusOr<Expr> OneHotOf(Expr label, const ValueType& type) {
  std::vector<Dim> dims = label.type().dims;
  if (dims.size() == type.dims.size() && dims.back() == Dim{1, 0}) dims.pop_back();
  if (dims != std::vector<Dim>(type.dims.begin(), type.dims.end() - 1)) {
    return InvalidArgument(
        "the label is {}, but the prediction is {}: the label must be a class number for each row "
        "of the prediction",
        TypeToString(label.type()), TypeToString(type));
  }
  dims.push_back({1, 0});
  std::vector<int64_t> numbers(static_cast<size_t>(type.dims.back().size));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Expr classes = label.builder()->Constant(
      Tensor::FromValues<int64_t>({type.dims.back().size}, std::span<const int64_t>(numbers)));
  const Expr given = Reshape(Cast(label, DType::kInt64), ReshapeDims(dims));
  return Cast(Equal(given, classes), type.dtype);
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
