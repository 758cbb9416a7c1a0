// Regularizers (keras/src/regularizers/regularizers.py).
#include "common/model/regularizers.h"

#include "common/graph/expr.h"
#include "common/model/layers/normalize.h"
#include "common/tensor/tensor.h"

namespace cohort {
namespace {

Expr AbsoluteSum(Expr weight, double factor) { return factor * ReduceSum(Abs(weight)); }
Expr SquareSum(Expr weight, double factor) { return factor * ReduceSum(Square(weight)); }

// The mean of |cos| over the pairs of rows (or columns), times the factor.
absl::StatusOr<Expr> OrthogonalPenalty(const Config& config, Expr weight) {
  if (!weight.valid()) return Expr();
  if (weight.rank() != 2) {
    return InvalidArgument("OrthogonalRegularizer needs a matrix, not {}",
                           TypeToString(weight.type()));
  }
  const bool rows = config.String("mode") == "rows";
  const int64_t axis = rows ? 1 : 0;
  const int64_t size = weight.type().dims[rows ? 0 : 1].size;
  if (size < 2) return InvalidArgument("OrthogonalRegularizer needs two {}", config.String("mode"));
  const Expr unit = UnitLength(weight, {axis}, kKerasEpsilon);
  const Expr cosines = MatMul(unit, unit, !rows, rows);
  const auto pairs = static_cast<double>(size * (size - 1));
  // Each pair counts twice, and the diagonal not at all.
  Tensor mask = Tensor::Zeros(DType::kFloat64, {size, size});
  for (int64_t i = 0; i < size * size; ++i) {
    mask.mutable_values<double>()[static_cast<size_t>(i)] = i % (size + 1) == 0 ? 0 : 1;
  }
  const Expr others = Abs(cosines) * Cast(weight.builder()->Constant(mask), weight.dtype());
  return config.Float("factor") / pairs * ReduceSum(others);
}

std::vector<RegularizerClass> RegularizerClasses() {
  return {
      {{"L1",
        {},
        "l1 times the sum of absolute values.",
        {Float("l1", "The factor.").Default(0.01).AtLeast(0)}},
       [](const Config& config, Expr weight) -> absl::StatusOr<Expr> {
         return AbsoluteSum(weight, config.Float("l1"));
       }},
      {{"L1L2",
        {},
        "The sum of both.",
        {Float("l1", "The factor of absolute values.").Default(0.0).AtLeast(0),
         Float("l2", "The factor of squares.").Default(0.0).AtLeast(0)}},
       [](const Config& config, Expr weight) -> absl::StatusOr<Expr> {
         return AbsoluteSum(weight, config.Float("l1")) + SquareSum(weight, config.Float("l2"));
       }},
      {{"L2",
        {},
        "l2 times the sum of squares.",
        {Float("l2", "The factor.").Default(0.01).AtLeast(0)}},
       [](const Config& config, Expr weight) -> absl::StatusOr<Expr> {
         return SquareSum(weight, config.Float("l2"));
       }},
      {{"OrthogonalRegularizer",
        {},
        "The mean of |cos| between the rows or columns of a matrix, times the factor.",
        {Float("factor", "The factor.").Default(0.01).AtLeast(0),
         String("mode", "What is to be orthogonal.").Default("rows").OneOf({"rows", "columns"})}},
       OrthogonalPenalty},
  };
}

}  // namespace

const ClassRegistry<RegularizerClass>& Regularizers() {
  static const auto& regularizers = *new ClassRegistry<RegularizerClass>(
      "regularizer", SchemaSet::Spelling::kKeras, "", RegularizerClasses());
  return regularizers;
}

const SchemaSet& RegularizerSchemas() { return Regularizers(); }

absl::StatusOr<Expr> Penalty(const v1::ClassConfig& config, Expr weight) {
  COHORT_ASSIGN_OR_RETURN(const RegularizerClass* regularizer,
                          Regularizers().Find(config.class_name()));
  return regularizer->penalty(Config(config), weight);
}

Argument RegularizerArgument(std::string_view name) {
  const std::string_view weight = name.substr(0, name.find('_'));
  return Object(name, RegularizerSchemas, fmt::format("Penalty of the {} in the loss.", weight))
      .Optional();
}

absl::Status AddActivityPenalty(LayerContext* context, const v1::ClassConfig& regularizer,
                                Expr output) {
  if (context->penalties == nullptr || !output.valid()) return absl::OkStatus();
  if (!IsFloating(output.dtype())) output = Cast(output, context->floatx);
  auto penalty = Penalty(regularizer, output);
  if (!penalty.ok()) return Annotate(penalty.status(), "activity_regularizer");
  if (!penalty->valid()) return absl::OkStatus();
  // A layer that is called again has a penalty for each call.
  Expr& sum = (*context->penalties)[context->name];
  const Expr own = *penalty / DimSize(output, 0, penalty->dtype());
  sum = sum.valid() ? sum + own : own;
  return absl::OkStatus();
}

}  // namespace cohort
