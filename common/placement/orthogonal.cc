#include "common/placement/orthogonal.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/status.h"

namespace cohort {
namespace {

// longer * shorter^2, of which a multiplication and an addition are done four times.
constexpr double kMostWork = 4.0e9;
constexpr double kMostElements = 1 << 26;

// Several sums side by side let the compiler use vectors.
double DotProduct(const double* a, const double* b, size_t n) {
  std::array<double, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= n; i += sums.size()) {
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += a[i + j] * b[i + j];
  }
  double sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const double part : sums) sum += part;
  return sum;
}

// Makes `vectors` (each of `n` numbers) orthonormal one by one. The second pass removes what
// rounding left of the first.
void Orthonormalize(std::vector<double>* vectors, size_t count, size_t n) {
  for (size_t j = 0; j < count; ++j) {
    double* const v = vectors->data() + j * n;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t k = 0; k < j; ++k) {
        const double* const q = vectors->data() + k * n;
        const double overlap = DotProduct(q, v, n);
        for (size_t i = 0; i < n; ++i) v[i] -= overlap * q[i];
      }
    }
    const double length = std::sqrt(DotProduct(v, v, n));
    for (size_t i = 0; i < n; ++i) v[i] /= length;
  }
}

}  // namespace

absl::Status CheckOrthogonalSize(uint64_t rows, uint64_t columns) {
  const auto longer = static_cast<double>(std::max(rows, columns));
  const auto shorter = static_cast<double>(std::min(rows, columns));
  if (shorter < 1) return InvalidArgument("Orthogonal needs a matrix with elements");
  if (longer * shorter <= kMostElements && longer * shorter * shorter <= kMostWork) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      "Orthogonal: a matrix of {} x {} takes too long to compute; the longer side times the square "
      "of the shorter one may be at most {}, and the elements at most {}. Use another initializer",
      rows, columns, kMostWork, kMostElements);
}

absl::StatusOr<std::vector<double>> OrthogonalMatrix(uint64_t rows, uint64_t columns, double gain,
                                                     absl::FunctionRef<double(uint64_t)> normal) {
  COHORT_RETURN_IF_ERROR(CheckOrthogonalSize(rows, columns));
  const uint64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  std::vector<double> vectors(longer * shorter);
  for (uint64_t i = 0; i < vectors.size(); ++i) {
    vectors[i % shorter * longer + i / shorter] = normal(i);
  }
  Orthonormalize(&vectors, shorter, longer);
  for (double& value : vectors) value *= gain;
  if (rows < columns) return vectors;  // its rows are the vectors
  std::vector<double> matrix(vectors.size());
  for (uint64_t i = 0; i < matrix.size(); ++i) {
    matrix[i] = vectors[i % columns * rows + i / columns];
  }
  return matrix;
}

}  // namespace cohort
