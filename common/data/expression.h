#ifndef COHORT_COMMON_DATA_EXPRESSION_H_
#define COHORT_COMMON_DATA_EXPRESSION_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// A formula of columns, as pandas.DataFrame.eval and query have them: `log1p(income)`,
// `(a + b) / 2`, `age >= 18 and country == 'US'`. A column whose name is no identifier stands in
// backquotes: `hours-per-week`. It is computed with doubles; true is 1. Thread-safe.
class Expression {
 public:
  // A word of a column, as it is compared in the text.
  struct Comparison {
    std::string column, word;
  };

  // Errors: InvalidArgument that shows what is wrong, and where.
  static absl::StatusOr<Expression> Parse(std::string_view text);

  // The columns of numbers, in the order of their first appearance.
  const std::vector<std::string>& columns() const { return columns_; }
  // Each is 1 for the records whose word is equal.
  const std::vector<Comparison>& comparisons() const { return comparisons_; }

  // Computes `out.size()` values. `inputs` are the columns, then the comparisons: as many numbers
  // of each.
  void Compute(std::span<const double* const> inputs, std::span<double> out) const;

 private:
  struct Parsers;

  std::vector<std::string> columns_;
  std::vector<Comparison> comparisons_;
  std::shared_ptr<Parsers> parsers_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_EXPRESSION_H_
