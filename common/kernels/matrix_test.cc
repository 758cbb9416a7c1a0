// matmul, reductions, softmax, cross entropies, in_top_k, against plain loops.
#include <array>
#include <limits>
#include <numeric>

#include "common/kernels/kernel_test_util.h"
#include "common/kernels/matmul_float.h"

namespace cohort {
namespace {

using testing::Near;
using testing::Output;
using testing::RandomTensor;
using testing::RunOp;
using testing::Values;

template <typename T>
Tensor Transposed(const Tensor& x) {
  const int64_t m = x.dims()[0], n = x.dims()[1];
  Tensor y(x.dtype(), {n, m});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      y.mutable_values<T>()[static_cast<size_t>(j * m + i)] =
          x.values<T>()[static_cast<size_t>(i * n + j)];
    }
  }
  return y;
}

template <typename T>
void CheckMatMul(int64_t m, int64_t n, int64_t k, int threads) {
  const Tensor a = RandomTensor<T>({m, k}, -1, 1, 1), b = RandomTensor<T>({k, n}, -1, 1, 2);
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Tensor y = Output({"matmul",
                               {ta ? Transposed<T>(a) : a, tb ? Transposed<T>(b) : b},
                               {{"transpose_a", ta}, {"transpose_b", tb}},
                               threads});
      REQUIRE(y.dims() == Dims{m, n});
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t p = 0; p < k; ++p) {
            sum += static_cast<double>(a.values<T>()[static_cast<size_t>(i * k + p)]) *
                   static_cast<double>(b.values<T>()[static_cast<size_t>(p * n + j)]);
          }
          INFO(m << "x" << n << "x" << k << " " << ta << tb);
          REQUIRE(Near<T>(y.values<T>()[static_cast<size_t>(i * n + j)], sum));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("matmul, with either side transposed", "", float, double) {
  CheckMatMul<TestType>(1, 1, 1, 1);
  CheckMatMul<TestType>(32, 1, 20, 1);
  CheckMatMul<TestType>(7, 10, 13, 1);
  CheckMatMul<TestType>(33, 65, 17, 1);
  CheckMatMul<TestType>(150, 70, 130, 3);
}

// A large matrix with few rows has functions of its own (few_rows_product.h), with groups of rows,
// columns that fill no vector, and results that bypass the caches.
TEST_CASE("matmul of few rows with a large matrix") {
  const auto check = [](int64_t rows, int64_t k, int64_t n) {
    INFO(rows << " rows, " << k << "x" << n);
    const Tensor x = RandomTensor<float>({rows, k}, -1, 1, 1);
    const Tensor matrix = RandomTensor<float>({k, n}, -1, 1, 2);
    const Tensor grad = RandomTensor<float>({rows, n}, -1, 1, 3);
    const Tensor y = Output({"matmul", {x, matrix}, {}, 1});
    const Tensor outer = Output({"matmul", {x, grad}, {{"transpose_a", true}}, 1});
    const auto at = [](const Tensor& t, int64_t i, int64_t j) {
      return static_cast<double>(t.values<float>()[static_cast<size_t>(i * t.dims()[1] + j)]);
    };
    for (int64_t j = 0; j < n; j += j < n - 40 ? 37 : 1) {
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t p = 0; p < k; ++p) sum += at(x, r, p) * at(matrix, p, j);
        REQUIRE(at(y, r, j) == Approx(sum).margin(1e-3));
      }
      for (int64_t p = 0; p < k; p += p < k - 10 ? 7 : 1) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r) sum += at(x, r, p) * at(grad, r, j);
        REQUIRE(at(outer, p, j) == Approx(sum).margin(1e-5));
      }
    }
    // The bits do not depend on how threads share the work.
    const auto bits = [](const Tensor& t) {
      const auto values = t.values<float>();
      return std::vector<float>(values.begin(), values.end());
    };
    REQUIRE(bits(Output({"matmul", {x, matrix}, {}, 3})) == bits(y));
    REQUIRE(bits(Output({"matmul", {x, grad}, {{"transpose_a", true}}, 3})) == bits(outer));
  };
  check(1, 1024, 1024);
  check(8, 517, 2051);
  check(15, 1500, 707);
  check(16, 1 << 20, 1);
  check(3, 11, 1 << 20);  // streamed
}

// Whole numbers, so that sums are exact in any order.
Tensor WholeNumbers(Dims dims, unsigned seed) {
  Tensor t = RandomTensor<float>(std::move(dims), -8, 8, seed);
  for (float& v : t.mutable_values<float>()) v = std::round(v);
  return t;
}

TEST_CASE("matmul of few rows and a large transposed matrix") {
  const std::vector<std::array<int64_t, 3>> sizes = {
      {16, 2048, 128}, {20, 500, 600}, {57, 1030, 260}, {64, 2051, 129}, {128, 4099, 64}};
  for (const auto& [m, n, k] : sizes) {
    INFO(m << "x" << n << "x" << k);
    REQUIRE(SuitsMultiplyByRows(m, n, k));
    const Tensor a = WholeNumbers({m, k}, 1), b = WholeNumbers({n, k}, 2);
    for (const int threads : {1, 3}) {
      const Tensor y = Output({"matmul", {a, b}, {{"transpose_b", true}}, threads});
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          const float* const left = a.values<float>().data() + i * k;
          const float sum =
              std::inner_product(left, left + k, b.values<float>().data() + j * k, 0.0f);
          REQUIRE(y.values<float>()[static_cast<size_t>(i * n + j)] == sum);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("batch_matmul multiplies each pair", "", float, double) {
  constexpr int64_t kPairs = 5, kM = 6, kN = 7, kK = 9;
  for (const int threads : {1, 3}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Tensor a =
            RandomTensor<TestType>(ta ? Dims{kPairs, kK, kM} : Dims{kPairs, kM, kK}, -1, 1, 1);
        const Tensor b =
            RandomTensor<TestType>(tb ? Dims{kPairs, kN, kK} : Dims{kPairs, kK, kN}, -1, 1, 2);
        const Tensor y =
            Output({"batch_matmul", {a, b}, {{"transpose_a", ta}, {"transpose_b", tb}}, threads});
        REQUIRE(y.dims() == Dims{kPairs, kM, kN});
        for (int64_t at = 0; at < y.num_elements(); ++at) {
          const int64_t pair = at / (kM * kN), i = at / kN % kM, j = at % kN;
          double sum = 0;
          for (int64_t p = 0; p < kK; ++p) {
            const int64_t in_a = pair * kM * kK + (ta ? p * kM + i : i * kK + p);
            const int64_t in_b = pair * kN * kK + (tb ? j * kK + p : p * kN + j);
            sum += static_cast<double>(a.values<TestType>()[static_cast<size_t>(in_a)]) *
                   static_cast<double>(b.values<TestType>()[static_cast<size_t>(in_b)]);
          }
          REQUIRE(Near<TestType>(y.values<TestType>()[static_cast<size_t>(at)], sum));
        }
      }
    }
  }
}

// Reduces `axes` by index, starting from `empty`.
template <typename T>
std::vector<double> NaiveReduce(const Tensor& x, const std::vector<int64_t>& axes, double empty,
                                double (*fold)(double, double)) {
  std::vector<bool> reduced(x.dims().size(), false);
  for (int64_t axis : axes) reduced[static_cast<size_t>(axis)] = true;
  int64_t size = 1;
  for (size_t i = 0; i < reduced.size(); ++i) size *= reduced[i] ? 1 : x.dims()[i];
  std::vector<double> y(static_cast<size_t>(size), empty);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    int64_t rest = i, offset = 0, stride = 1;
    for (size_t d = reduced.size(); d-- > 0; rest /= x.dims()[d]) {
      if (reduced[d]) continue;
      offset += rest % x.dims()[d] * stride;
      stride *= x.dims()[d];
    }
    const double value = x.values<T>()[static_cast<size_t>(i)];
    double& to = y[static_cast<size_t>(offset)];
    to = fold(to, value);
  }
  return y;
}

TEMPLATE_TEST_CASE("reductions over any axes", "", float, double) {
  struct Reduction {
    const char* op;
    double empty;
    double (*fold)(double, double);
  };
  const Reduction reductions[] = {{"reduce_sum", 0, [](double a, double b) { return a + b; }},
                                  {"reduce_max", -std::numeric_limits<double>::infinity(),
                                   [](double a, double b) { return std::max(a, b); }},
                                  {"reduce_prod", 1, [](double a, double b) { return a * b; }}};
  const std::vector<std::pair<Dims, std::vector<int64_t>>> cases = {{{}, {}},
                                                                    {{17}, {0}},
                                                                    {{17}, {}},
                                                                    {{5, 9}, {0}},
                                                                    {{5, 9}, {1}},
                                                                    {{5, 9}, {0, 1}},
                                                                    {{4, 3, 20}, {1}},
                                                                    {{4, 3, 20}, {0, 2}},
                                                                    {{4, 3, 20}, {1, 2}},
                                                                    {{2, 3, 4, 5}, {0, 2}},
                                                                    {{2, 3, 4, 5}, {1, 3}},
                                                                    {{3, 1, 5}, {1}},
                                                                    {{32, 1}, {0}},
                                                                    {{32, 1}, {1}},
                                                                    {{500, 300}, {1}}};
  for (const auto& [dims, axes] : cases) {
    const Tensor x = RandomTensor<TestType>(dims, -1, 1, 11);
    for (const bool keepdims : {false, true}) {
      for (const int threads : {1, 2}) {
        for (const Reduction& r : reductions) {
          INFO(DimsToString(dims) << " over " << DimsToString(axes) << " " << r.op);
          const Tensor y = Output({r.op, {x}, {{"axes", axes}, {"keepdims", keepdims}}, threads});
          REQUIRE(y.dims().size() == (keepdims ? dims.size() : dims.size() - axes.size()));
          const std::vector<double> expected = NaiveReduce<TestType>(x, axes, r.empty, r.fold);
          REQUIRE(expected.size() == static_cast<size_t>(y.num_elements()));
          for (size_t i = 0; i < expected.size(); ++i) {
            REQUIRE(Near<TestType>(y.values<TestType>()[i], expected[i]));
          }
        }
      }
    }
  }
}

TEST_CASE("sums of many float32 numbers do not lose digits") {
  const int64_t n = 10'000'019;
  Tensor x = Tensor::Zeros(DType::kFloat32, {n, 1});
  std::ranges::fill(x.mutable_values<float>(), 0.1f);
  const double all = static_cast<double>(n) * static_cast<double>(0.1f);
  for (const int threads : {1, 2}) {
    for (const int64_t columns : {1, 19}) {  // along memory, and across it
      INFO(columns << " columns, " << threads << " threads");
      const int64_t rows = n / columns;
      const Tensor table = columns == 1 ? x : RandomTensor<float>({rows, columns}, 0, 1, 5);
      const Tensor sums = Output({"reduce_sum",
                                  {table},
                                  {{"axes", std::vector<int64_t>{0}}, {"keepdims", false}},
                                  threads});
      for (int64_t c = 0; c < columns; ++c) {
        double exact = columns == 1 ? all : 0;
        for (int64_t r = 0; columns > 1 && r < rows; ++r) {
          exact += static_cast<double>(table.values<float>()[static_cast<size_t>(r * columns + c)]);
        }
        CHECK(static_cast<double>(sums.values<float>()[static_cast<size_t>(c)]) ==
              Approx(exact).epsilon(3e-7));
      }
    }
    const double squares = Output({"sum_squares", {x}, {}, threads}).values<double>()[0];
    CHECK(squares == Approx(all * static_cast<double>(0.1f)).epsilon(1e-12));
  }
}

TEMPLATE_TEST_CASE("softmax and log_softmax sum to one, for large logits too", "", float, double) {
  for (int64_t n : {1, 2, 7, 8, 10, 16, 33}) {
    for (const double scale : {1.0, 500.0}) {
      const Tensor x = RandomTensor<TestType>({5, n}, -scale, scale, 3);
      const Tensor y = Output({"softmax", {x}}), log_y = Output({"log_softmax", {x}});
      for (int64_t r = 0; r < 5; ++r) {
        const auto row =
            x.values<TestType>().subspan(static_cast<size_t>(r * n), static_cast<size_t>(n));
        const double max = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (TestType v : row) sum += std::exp(static_cast<double>(v) - max);
        for (int64_t i = 0; i < n; ++i) {
          const size_t at = static_cast<size_t>(r * n + i);
          const double log_p = row[static_cast<size_t>(i)] - max - std::log(sum);
          REQUIRE(Near<TestType>(y.values<TestType>()[at], std::exp(log_p)));
          REQUIRE(Near<TestType>(log_y.values<TestType>()[at], log_p));
        }
      }
    }
  }
}

// The threshold by sorting, as the paper has it.
std::vector<double> SortedSparsemax(std::vector<double> x) {
  std::vector<double> sorted = x;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0, threshold = 0;
  for (size_t k = 0; k < sorted.size(); ++k) {
    sum += sorted[k];
    const double next = (sum - 1) / static_cast<double>(k + 1);
    if (sorted[k] > next) threshold = next;
  }
  for (double& v : x) v = std::max(v - threshold, 0.0);
  return x;
}

TEMPLATE_TEST_CASE("sparsemax agrees with sorting", "", float, double) {
  for (int64_t n : {1, 2, 7, 33}) {
    for (const double scale : {0.01, 1.0, 30.0}) {
      Tensor x = RandomTensor<TestType>({9, n}, -scale, scale, 3);
      for (int64_t i = 0; i + 1 < n; ++i) {  // the first row has ties
        x.mutable_values<TestType>()[static_cast<size_t>(i)] = static_cast<TestType>(i % 2);
      }
      const Tensor y = Output({"sparsemax", {x}});
      for (size_t r = 0; r < 9; ++r) {
        const auto row =
            x.values<TestType>().subspan(r * static_cast<size_t>(n), static_cast<size_t>(n));
        const auto expected = SortedSparsemax({row.begin(), row.end()});
        for (size_t i = 0; i < expected.size(); ++i) {
          REQUIRE(Near<TestType>(y.values<TestType>()[r * expected.size() + i], expected[i]));
        }
      }
    }
  }
}

TEST_CASE("argmax takes the first of equal maxima") {
  const Tensor x = Values<float>({3, 4}, {1, 5, 5, 2, 9, 0, 0, 9, -1, -2, -1, -3});
  const Tensor y = Output({"argmax", {x}});
  REQUIRE(y.dims() == Dims{3});
  REQUIRE(std::ranges::equal(y.values<int64_t>(), std::vector<int64_t>{1, 0, 0}));
}

TEMPLATE_TEST_CASE("sigmoid cross entropy neither overflows nor loses digits", "", float, double) {
  const Tensor x = RandomTensor<TestType>({41}, -30, 30, 4),
               z = RandomTensor<TestType>({41}, 0, 1, 5);
  const Tensor y = Output({"sigmoid_cross_entropy", {z, x}});
  for (size_t i = 0; i < 41; ++i) {
    const double a = x.values<TestType>()[i], t = z.values<TestType>()[i];
    const double expected = t * std::log1p(std::exp(-a)) + (1 - t) * (a + std::log1p(std::exp(-a)));
    REQUIRE(Near<TestType>(y.values<TestType>()[i], expected));
  }
  const Tensor far = Output({"sigmoid_cross_entropy",
                             {Values<TestType>({2}, {1, 0}), Values<TestType>({2}, {-1e4, 1e4})}});
  REQUIRE(far.values<TestType>()[0] == TestType{10000});
  REQUIRE(far.values<TestType>()[1] == TestType{10000});
}

TEMPLATE_TEST_CASE("sparse softmax cross entropy", "", float, double) {
  const Tensor x = RandomTensor<TestType>({6, 10}, -3, 3, 6);
  const Tensor labels = Values<int64_t>({6}, {0, 9, 3, 3, 5, 1});
  const Tensor y = Output({"sparse_softmax_cross_entropy", {labels, x}});
  const Tensor log_softmax = Output({"log_softmax", {x}});
  for (size_t r = 0; r < 6; ++r) {
    const size_t at = r * 10 + static_cast<size_t>(labels.values<int64_t>()[r]);
    REQUIRE(Near<TestType>(y.values<TestType>()[r], -log_softmax.values<TestType>()[at]));
  }
  const absl::Status status =
      RunOp({"sparse_softmax_cross_entropy", {Values<int64_t>({6}, {0, 1, 2, 10, 0, 0}), x}})
          .status;
  REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
  REQUIRE(status.message() == "label 10 of example 3 does not lie in [0, 10)");
}

// The answers for `targets`, one for each row of `predictions`.
template <typename T>
std::vector<bool> InTopK(const Tensor& targets, const Tensor& predictions, int64_t k,
                         int threads = 1) {
  const Tensor y = Output({"in_top_k", {targets, predictions}, {{"k", k}}, threads});
  REQUIRE(y.dims() == targets.dims());
  return {y.values<bool>().begin(), y.values<bool>().end()};
}

TEMPLATE_TEST_CASE("in_top_k counts ties at the boundary as in", "", float, double) {
  using Answers = std::vector<bool>;
  const auto ask = InTopK<TestType>;
  const Tensor x = Values<TestType>({3, 4}, {4, 1, 3, 2, 5, 7, 7, 5, 1, 1, 1, 1});
  const Tensor third = Values<int64_t>({3}, {2, 2, 2}), last = Values<int64_t>({3}, {3, 3, 3});
  CHECK(ask(third, x, 1, 1) == Answers{false, true, true});
  CHECK(ask(third, x, 2, 1) == Answers{true, true, true});
  CHECK(ask(last, x, 1, 1) == Answers{false, false, true});
  CHECK(ask(last, x, 2, 1) == Answers{false, false, true});
  CHECK(ask(last, x, 3, 1) == Answers{true, true, true});
  CHECK(ask(last, x, 100, 1) == Answers{true, true, true});
}

TEMPLATE_TEST_CASE("in_top_k is false for what is no class or not finite", "", float, double) {
  const TestType inf = std::numeric_limits<TestType>::infinity();
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  const Tensor x = Values<TestType>(
      {7, 3}, {1, 2, 3, 1, 2, 3, 1, inf, 3, 1, nan, 3, -inf, 9, 1, nan, 9, 1, 1, 9, 2});
  const Tensor targets = Values<int64_t>({7}, {3, -1, 1, 1, 1, 1, 1});
  CHECK(InTopK<TestType>(targets, x, 3) ==
        std::vector<bool>{false, false, false, false, false, false, true});
}

TEST_CASE("in_top_k agrees with sorting, on several threads too") {
  const int64_t rows = 2000, n = 50, k = 5;
  const Tensor x = RandomTensor<float>({rows, n}, 0, 1, 8);
  Tensor targets(DType::kInt64, {rows});
  std::vector<bool> expected;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = r * 7 % n;
    targets.mutable_values<int64_t>()[static_cast<size_t>(r)] = target;
    const auto row = x.values<float>().subspan(static_cast<size_t>(r * n), static_cast<size_t>(n));
    std::vector<float> sorted(row.begin(), row.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    expected.push_back(row[static_cast<size_t>(target)] >= sorted[k - 1]);
  }
  CHECK(InTopK<float>(targets, x, k, 1) == expected);
  CHECK(InTopK<float>(targets, x, k, 3) == expected);
}

}  // namespace
}  // namespace cohort
