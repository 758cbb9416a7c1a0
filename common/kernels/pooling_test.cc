// max_pool and max_pool_grad: values by hand, and against loops over padded steps.
#include <limits>

#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::Output;
using testing::RandomTensor;
using testing::Values;

constexpr double kPad = -std::numeric_limits<double>::infinity();

Attrs PoolAttrs(int64_t window, int64_t stride, const std::string& padding) {
  return {{"window", std::vector<int64_t>{window}},
          {"strides", std::vector<int64_t>{stride}},
          {"padding", padding}};
}

template <typename T>
std::vector<double> Numbers(const Tensor& t) {
  return {t.values<T>().begin(), t.values<T>().end()};
}

using Doubles = std::vector<double>;

// The maxima of one channel.
template <typename T>
Doubles Pooled(std::initializer_list<T> steps, int64_t window, int64_t stride,
               const std::string& padding) {
  const Tensor x = Values<T>({1, static_cast<int64_t>(steps.size()), 1}, steps);
  return Numbers<T>(Output({"max_pool", {x}, PoolAttrs(window, stride, padding)}));
}

TEMPLATE_TEST_CASE("max_pool gives the values of Keras' examples", "", float, double) {
  using T = TestType;
  CHECK(Pooled<T>({1, 2, 3, 4, 5}, 2, 1, "valid") == Doubles{2, 3, 4, 5});
  CHECK(Pooled<T>({1, 2, 3, 4, 5}, 2, 2, "valid") == Doubles{2, 4});
  CHECK(Pooled<T>({1, 2, 3, 4, 5}, 2, 1, "same") == Doubles{2, 3, 4, 5, 5});
  // Padding never wins, and an odd padding has its larger part at the end.
  CHECK(Pooled<T>({-5, -4, -3, -2, -1}, 2, 2, "same") == Doubles{-4, -2, -1});
  CHECK(Pooled<T>({-1, -2, -3, -4}, 4, 2, "same") == Doubles{-1, -2});
  CHECK(Pooled<T>({-9, -8, -7, -1}, 4, 1, "same") == Doubles{-7, -1, -1, -1});
  CHECK(Pooled<T>({3, 1, 2}, 1, 2, "valid") == Doubles{3, 2});
  CHECK(Pooled<T>({3, 1, 2}, 100, 7, "same") == Doubles{3});
}

TEMPLATE_TEST_CASE("a NaN is the maximum of its windows", "", float, double) {
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  const Doubles y = Pooled<TestType>({1, nan, 3, 4, 5}, 2, 1, "valid");
  CHECK(std::isnan(y[0]));
  CHECK(std::isnan(y[1]));
  CHECK(Doubles(y.begin() + 2, y.end()) == Doubles{4, 5});
  const Tensor x = Values<TestType>({1, 4, 1}, {9, nan, nan, 9});
  const Tensor grad = Values<TestType>({1, 1, 1}, {7});
  const Tensor dx = Output({"max_pool_grad", {grad, x}, PoolAttrs(4, 4, "valid")});
  CHECK(Numbers<TestType>(dx) == Doubles{0, 7, 0, 0});
}

TEMPLATE_TEST_CASE("the first of equal maxima gets the gradient", "", float, double) {
  const Tensor grad = Values<TestType>({1, 3, 1}, {1, 10, 100});
  const auto gradient = [&](std::initializer_list<TestType> steps, int64_t window, int64_t stride,
                            const std::string& padding) {
    const Tensor x = Values<TestType>({1, static_cast<int64_t>(steps.size()), 1}, steps);
    return Numbers<TestType>(
        Output({"max_pool_grad", {grad, x}, PoolAttrs(window, stride, padding)}));
  };
  CHECK(gradient({0, 0, 0, 0, 0, 0}, 2, 2, "valid") == Doubles{1, 0, 10, 0, 100, 0});
  CHECK(gradient({1, 2, 2, 1, 3, 3}, 2, 2, "valid") == Doubles{0, 1, 10, 0, 100, 0});
  // Windows that overlap add up, and steps outside of all windows get nothing.
  CHECK(gradient({1, 5, 5, 5, 1}, 3, 1, "valid") == Doubles{0, 11, 100, 0, 0});
  CHECK(gradient({1, 2, 9, 2, 1, 9, 3, 4, 9}, 2, 3, "valid") ==
        Doubles{0, 1, 0, 10, 0, 0, 0, 100, 0});
  CHECK(gradient({-1, -1, -1}, 3, 1, "same") == Doubles{11, 100, 0});
}

// The windows of one axis as lists of steps, with -1 for padding, by the formulas of TensorFlow's
// documentation.
std::vector<std::vector<int64_t>> Windows(int64_t steps, int64_t window, int64_t stride,
                                          bool same) {
  const int64_t count =
      same ? static_cast<int64_t>(
                 std::ceil(static_cast<double>(steps) / static_cast<double>(stride)))
           : static_cast<int64_t>(
                 std::ceil(static_cast<double>(steps - window + 1) / static_cast<double>(stride)));
  int64_t pad = 0;
  if (same) {
    pad = steps % stride == 0 ? std::max<int64_t>(window - stride, 0)
                              : std::max<int64_t>(window - steps % stride, 0);
  }
  std::vector<std::vector<int64_t>> windows(static_cast<size_t>(count));
  for (int64_t o = 0; o < count; ++o) {
    for (int64_t i = 0; i < window; ++i) {
      const int64_t step = o * stride + i - pad / 2;
      windows[static_cast<size_t>(o)].push_back(step >= 0 && step < steps ? step : -1);
    }
  }
  return windows;
}

// Compares the maxima, the picked values and the gradient of one shape with loops over windows.
template <typename T>
void CheckPool(const Tensor& x, int64_t window, int64_t stride, bool same, int threads) {
  INFO(DimsToString(x.dims()) << " by " << window << ", " << stride << (same ? " same" : ""));
  const int64_t batch = x.dims()[0], steps = x.dims()[1], channels = x.dims()[2];
  const auto windows = Windows(steps, window, stride, same);
  const Attrs attrs = PoolAttrs(window, stride, same ? "same" : "valid");
  const Tensor y = Output({"max_pool", {x}, attrs, threads});
  REQUIRE(y.dims() == Dims{batch, static_cast<int64_t>(windows.size()), channels});
  const Tensor values = RandomTensor<T>(x.dims(), -1, 1, 5);
  const Tensor grad = RandomTensor<T>(y.dims(), -1, 1, 6);
  Doubles maxima, picked, dx(x.values<T>().size(), 0);
  for (int64_t row = 0; row < batch * static_cast<int64_t>(windows.size()); ++row) {
    const int64_t example = row / static_cast<int64_t>(windows.size());
    for (int64_t c = 0; c < channels; ++c) {
      double maximum = kPad;
      size_t best = 0;
      for (int64_t step : windows[static_cast<size_t>(row) % windows.size()]) {
        if (step < 0) continue;
        const auto at = static_cast<size_t>((example * steps + step) * channels + c);
        if (x.values<T>()[at] <= maximum) continue;
        maximum = x.values<T>()[at];
        best = at;
      }
      maxima.push_back(maximum);
      picked.push_back(values.values<T>()[best]);
      T sum = static_cast<T>(dx[best]);
      sum += grad.values<T>()[static_cast<size_t>(row * channels + c)];
      dx[best] = sum;
    }
  }
  REQUIRE(Numbers<T>(y) == maxima);
  REQUIRE(Numbers<T>(Output({"max_pool", {x, values}, attrs, threads})) == picked);
  REQUIRE(Numbers<T>(Output({"max_pool_grad", {grad, x}, attrs, threads})) == dx);
}

TEMPLATE_TEST_CASE("pooling agrees with loops over padded windows", "", float, double) {
  for (const int64_t steps : {1, 2, 5, 8}) {
    for (const int64_t window : {1, 2, 3, 5, 9}) {
      for (const int64_t stride : {1, 2, 3, 7}) {
        Tensor x = RandomTensor<TestType>({3, steps, 5}, -4, -1, 1);
        // Few values, so that many maxima are equal.
        for (TestType& v : x.mutable_values<TestType>()) v = std::floor(v);
        CheckPool<TestType>(x, window, stride, true, 1);
        if (window <= steps) CheckPool<TestType>(x, window, stride, false, 1);
      }
    }
  }
  CheckPool<TestType>(RandomTensor<TestType>({37, 120, 20}, -1, 1, 2), 3, 2, true, 3);
}

}  // namespace
}  // namespace cohort
