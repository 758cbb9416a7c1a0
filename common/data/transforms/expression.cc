// Expression: a column computed from other columns.
#include "common/data/expression.h"

#include <algorithm>
#include <array>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// Numbers that are computed at a time.
constexpr size_t kBlockNumbers = 256;

absl::StatusOr<Expression> ParseColumns(const Config& config) {
  COHORT_ASSIGN_OR_RETURN(Expression parsed, Expression::Parse(config.String("expression")));
  if (parsed.comparisons().empty()) return parsed;
  return InvalidArgument(
      "\"{}\": only a `filter` compares words; make a column of 0 and 1 with `equals` first",
      config.String("expression"));
}

absl::StatusOr<RecordTransform> OpenExpression(const Config& config,
                                               std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const Expression expression, ParseColumns(config));
  RecordTransform transform{.dtype = DType::kFloat32, .dims = inputs[0].dims};
  std::vector<DType> dtypes;
  for (const FeatureType& input : inputs) {
    if (input.dims != inputs[0].dims) {
      return InvalidArgument("columns \"{}\" {} and \"{}\" {} have different shapes",
                             inputs[0].name, DimsToString(inputs[0].dims), input.name,
                             DimsToString(input.dims));
    }
    dtypes.push_back(input.dtype);
    if (input.dtype == DType::kFloat64) transform.dtype = DType::kFloat64;
  }
  transform.apply = [expression, dtypes, to = transform.dtype](
                        const RecordContext&, std::span<const std::span<const std::byte>> values,
                        std::span<std::byte> output) {
    const size_t count = output.size() / SizeOf(to);
    std::vector<std::array<double, kBlockNumbers>> numbers(dtypes.size());
    std::vector<const double*> columns;
    for (const auto& column : numbers) columns.push_back(column.data());
    std::array<double, kBlockNumbers> results;
    for (size_t at = 0; at < count; at += kBlockNumbers) {
      const size_t block = std::min(kBlockNumbers, count - at);
      for (size_t c = 0; c < dtypes.size(); ++c) {
        ConvertNumbers(dtypes[c], values[c].data() + at * SizeOf(dtypes[c]), DType::kFloat64,
                       numbers[c].data(), block);
      }
      expression.Compute(columns, std::span(results).first(block));
      ConvertNumbers(DType::kFloat64, results.data(), to, output.data() + at * SizeOf(to), block);
    }
    return absl::OkStatus();
  };
  return transform;
}

}  // namespace

TransformClass ExpressionTransform() {
  return {
      .schema = {.name = "Expression",
                 .doc = "A column computed from columns of numbers: `log1p(income)`, `a / b`, `age "
                        ">= 18 and hours < 40`, which is 1 or 0. It needs no `columns`, but an "
                        "`output`. float32, or float64 if a column is; computed with float64.",
                 .arguments = {String("expression",
                                      "Operators `+ - * / % ** == != < <= > >= and or not ?:`, and "
                                      "functions by NumPy's names, as `log1p`, `clip`, `where`. "
                                      "Names that are no identifiers stand in backquotes.")}},
      .takes_columns = true,
      .columns_of = [](const Config& config) -> absl::StatusOr<std::vector<std::string>> {
        COHORT_ASSIGN_OR_RETURN(const Expression expression, ParseColumns(config));
        return expression.columns();
      },
      .open = OpenExpression,
      .elementwise = true};
}

}  // namespace cohort
