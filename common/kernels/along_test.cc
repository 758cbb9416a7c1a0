// argsort, gather_along, gather_along_grad.
#include <limits>

#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::Near;
using testing::Output;
using testing::RandomTensor;
using testing::Values;

template <typename T>
std::vector<int64_t> Sorted(const Tensor& x, bool descending) {
  const Tensor y = Output({"argsort", {x}, {{"descending", descending}}});
  REQUIRE(y.dims() == x.dims());
  const auto values = y.values<int64_t>();
  return {values.begin(), values.end()};
}

TEMPLATE_TEST_CASE("argsort keeps the order of equal elements", "", float, double, int64_t) {
  const Tensor x = Values<TestType>({2, 4}, {3, -1, 3, 0, 7, 7, 7, 2});
  CHECK(Sorted<TestType>(x, false) == std::vector<int64_t>{1, 3, 0, 2, 3, 0, 1, 2});
  CHECK(Sorted<TestType>(x, true) == std::vector<int64_t>{0, 2, 3, 1, 0, 1, 2, 3});
}

TEST_CASE("argsort tells large integers apart") {
  const int64_t large = std::numeric_limits<int64_t>::max();
  const Tensor x = Values<int64_t>({4}, {large, large - 1, large - 2, -large - 1});
  CHECK(Sorted<int64_t>(x, false) == std::vector<int64_t>{3, 2, 1, 0});
  CHECK(Sorted<int64_t>(x, true) == std::vector<int64_t>{0, 1, 2, 3});
}

TEMPLATE_TEST_CASE("argsort takes NaN as the largest number", "", float, double) {
  const TestType nan = std::numeric_limits<TestType>::quiet_NaN();
  const TestType infinity = std::numeric_limits<TestType>::infinity();
  const Tensor x = Values<TestType>({5}, {nan, infinity, -infinity, nan, 0});
  CHECK(Sorted<TestType>(x, false) == std::vector<int64_t>{2, 4, 1, 0, 3});
  CHECK(Sorted<TestType>(x, true) == std::vector<int64_t>{0, 3, 1, 4, 2});
}

TEST_CASE("argsort of many elements ascends") {
  const Tensor x = RandomTensor<double>({3, 1000}, -1, 1, 5);
  const std::vector<int64_t> places = Sorted<double>(x, false);
  for (size_t i = 1; i < places.size(); ++i) {
    if (i % 1000 == 0) continue;
    const auto row = x.values<double>().subspan(i / 1000 * 1000, 1000);
    REQUIRE(row[static_cast<size_t>(places[i - 1])] <= row[static_cast<size_t>(places[i])]);
  }
}

TEMPLATE_TEST_CASE("gather_along takes elements by index, and 0 outside", "", float, double,
                   int64_t) {
  const Tensor x = Values<TestType>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor index = Values<int64_t>({2, 4}, {2, 0, 3, 2, 1, -1, 1, 0});
  const Tensor y = Output({"gather_along", {x, index}});
  REQUIRE(y.dims() == Dims{2, 4});
  CHECK(std::ranges::equal(y.values<TestType>(), std::vector<TestType>{3, 1, 0, 3, 5, 0, 5, 4}));
}

TEMPLATE_TEST_CASE("gather_along_grad sums the elements of equal indices", "", float, double) {
  const Tensor x = RandomTensor<TestType>({2, 3}, 0, 1, 1);
  const Tensor index = Values<int64_t>({2, 4}, {2, 0, 3, 2, 1, -1, 1, 0});
  const Tensor grad = RandomTensor<TestType>({2, 4}, -1, 1, 2);
  const Tensor y = Output({"gather_along_grad", {grad, index, x}});
  REQUIRE(y.dims() == x.dims());
  for (size_t row = 0; row < 2; ++row) {
    for (size_t place = 0; place < 3; ++place) {
      double sum = 0;
      for (size_t i = 4 * row; i < 4 * row + 4; ++i) {
        if (index.values<int64_t>()[i] == static_cast<int64_t>(place)) {
          sum += grad.values<TestType>()[i];
        }
      }
      REQUIRE(Near<TestType>(y.values<TestType>()[3 * row + place], sum));
    }
  }
}

}  // namespace
}  // namespace cohort
