#include "common/model/metrics/confusion.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "common/model/losses/loss.h"

namespace cohort {
namespace {

// Element `class_id` of the last axis.
absl::StatusOr<Expr> OneClass(Expr x, int64_t class_id) {
  const int64_t axis = static_cast<int64_t>(x.rank()) - 1;
  const int64_t classes = axis < 1 ? 0 : x.type().dims.back().size;
  if (class_id < classes) return Slice(x, axis, class_id, 1);
  return InvalidArgument("there is no class_id {}: the prediction is {}", class_id,
                         TypeToString(x.type()));
}

// Keeps the k largest predictions of the last axis; of equal ones the first. The others get Keras'
// NEG_INF, which no threshold is below.
absl::StatusOr<Expr> KeepTop(Expr p, int64_t k) {
  const int64_t classes = p.type().dims.back().size;
  if (k > classes) {
    return InvalidArgument("top_k is {}, and the prediction {} has {} classes", k,
                           TypeToString(p.type()), classes);
  }
  ProgramBuilder* const b = p.builder();
  std::vector<int64_t> numbers(static_cast<size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), 0);
  const Expr ids =
      b->Constant(Tensor::FromValues<int64_t>({classes}, std::span<const int64_t>(numbers)));
  std::vector<Dim> dims = p.type().dims;
  dims.back() = {1, 0};
  const Expr lowest = b->Scalar(-std::numeric_limits<double>::infinity(), p.dtype());
  Expr rest = p;
  Expr kept;
  for (int64_t i = 0; i < k; ++i) {
    const Expr is_best = Equal(Reshape(ArgMax(rest), ReshapeDims(dims)), ids);
    kept = kept.valid() ? LogicalOr(kept, is_best) : is_best;
    rest = Select(is_best, lowest, rest);
  }
  return Select(kept, p, b->Scalar(kNoPrediction, p.dtype()));
}

}  // namespace

Thresholds EvenThresholds(int64_t n) {
  Thresholds even{.at = {}, .scale = static_cast<double>(n - 1), .clips = true};
  for (int64_t i = 0; i < n; ++i) even.at.push_back(static_cast<double>(i));
  return even;
}

bool AreEven(const std::vector<double>& at) {
  for (size_t i = 0; i < at.size(); ++i) {
    const double even = static_cast<double>(i) / static_cast<double>(at.size() - 1);
    if (std::abs(at[i] - even) > kProbabilityEpsilon + 1e-5 * even) return false;
  }
  return at.size() > 2;
}

Thresholds ThresholdsOf(const Config& config, double otherwise) {
  std::vector<double> at = config.Floats("thresholds");
  if (at.empty()) at = {otherwise};
  if (AreEven(at)) return EvenThresholds(static_cast<int64_t>(at.size()));
  return {.at = std::move(at)};
}

Argument ThresholdsArgument() {
  return Floats("thresholds",
                "A prediction above it is positive. None: 0.5. A list makes a number for each, "
                "reported as NAME_0, NAME_1 and so on.")
      .Between(0, 1)
      .Optional();
}

Argument ClassIdArgument() {
  return Int("class_id", "The only class that counts. None: all.").AtLeast(0).Optional();
}

absl::StatusOr<Elements> ElementsOf(const Config& config, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  Expr p = prediction.value;
  if (config.Has("top_k")) {
    COHORT_ASSIGN_OR_RETURN(p, KeepTop(p, config.Int("top_k")));
  }
  if (config.Has("class_id")) {
    COHORT_ASSIGN_OR_RETURN(p, OneClass(p, config.Int("class_id")));
    COHORT_ASSIGN_OR_RETURN(label, OneClass(label, config.Int("class_id")));
  }
  Elements elements{NonZero(label), p, {}};
  if (!input.weight.valid()) return elements;
  COHORT_ASSIGN_OR_RETURN(elements.weight, WeightLike(input.weight, p));
  return elements;
}

ConfusionCounts CountAbove(const Elements& elements, const Thresholds& thresholds) {
  const Expr p = AsRows(thresholds.clips ? Clip(elements.p, 0, 1) : elements.p, 1);
  const auto n = static_cast<int64_t>(thresholds.at.size());
  const Tensor at = Tensor::FromValues<double>({n}, thresholds.at);
  const Expr above =
      Cast(Greater(p * thresholds.scale, Cast(p.builder()->Constant(at), p.dtype())), p.dtype());
  Expr positive = AsRows(elements.positive, 1);
  Expr negative = 1.0 - positive;
  if (elements.weight.valid()) {
    const Expr weight = AsRows(elements.weight, 1);
    positive = positive * weight;
    negative = negative * weight;
  }
  const Expr labels[] = {positive, negative};
  const Expr counts = MatMul(Concat(labels, 1), above, /*transpose_a=*/true);  // [2, n]
  return {.true_positives = Reshape(Slice(counts, 0, 0, 1), {n}),
          .false_positives = Reshape(Slice(counts, 0, 1, 1), {n}),
          .positives = ReduceSum(positive),
          .negatives = ReduceSum(negative)};
}

}  // namespace cohort
