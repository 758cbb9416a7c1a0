// Ops that move elements: concat, slice, transpose, broadcast_like, dim_size.
#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::Output;
using testing::RandomTensor;
using testing::Values;

TEMPLATE_TEST_CASE("concat and slice are inverse along every axis", "", float, double, int64_t,
                   uint8_t) {
  const Dims whole = {3, 4, 5};
  for (int64_t axis = 0; axis < 3; ++axis) {
    const Tensor x = RandomTensor<TestType>(whole, 0, 200, 1);
    std::vector<Tensor> parts;
    const int64_t size = whole[static_cast<size_t>(axis)];
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, size - 1}}) {
      parts.push_back(Output({"slice", {x}, {{"axis", axis}, {"begin", begin}, {"size", count}}}));
      REQUIRE(parts.back().dims()[static_cast<size_t>(axis)] == count);
    }
    const Tensor y = Output({"concat", parts, {{"axis", axis}}});
    REQUIRE(y.dims() == whole);
    REQUIRE(std::ranges::equal(x.values<TestType>(), y.values<TestType>()));
  }
  // The elements themselves: column 2 of every row.
  const Tensor x = Values<TestType>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor column =
      Output({"slice", {x}, {{"axis", int64_t{1}}, {"begin", int64_t{2}}, {"size", int64_t{1}}}});
  REQUIRE(column.values<TestType>()[0] == 3);
  REQUIRE(column.values<TestType>()[1] == 6);
}

TEMPLATE_TEST_CASE("transpose moves every element to its place", "", float, double, uint8_t) {
  // The second has tiles and their rests, the last one no element.
  const Dims dims = GENERATE(Dims{2, 3, 4}, Dims{3, 37, 50}, Dims{2, 0, 3});
  const Tensor x = RandomTensor<TestType>(dims, 0, 200, 2);
  for (const std::vector<int64_t>& perm : std::vector<std::vector<int64_t>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    const Tensor y = Output({"transpose", {x}, {{"perm", perm}}});
    for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; ++i) {
      const int64_t index[] = {i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]};
      int64_t to = 0;
      for (size_t d = 0; d < 3; ++d) to = to * y.dims()[d] + index[perm[d]];
      REQUIRE(y.values<TestType>()[static_cast<size_t>(to)] ==
              x.values<TestType>()[static_cast<size_t>(i)]);
    }
  }
  const Tensor vector = Values<TestType>({3}, {1, 2, 3});
  REQUIRE(std::ranges::equal(Output({"transpose", {vector}, {{"perm", std::vector<int64_t>{0}}}})
                                 .template values<TestType>(),
                             vector.values<TestType>()));
}

TEMPLATE_TEST_CASE("broadcast_like repeats", "", float, double) {
  const Tensor like = RandomTensor<TestType>({2, 3}, 0, 1, 1);
  const auto spread = [&](const Tensor& x) {
    const Tensor y = Output({"broadcast_like", {x, like}});
    return std::vector<TestType>(y.values<TestType>().begin(), y.values<TestType>().end());
  };
  REQUIRE(spread(Values<TestType>({}, {7})) == std::vector<TestType>{7, 7, 7, 7, 7, 7});
  REQUIRE(spread(Values<TestType>({3}, {1, 2, 3})) == std::vector<TestType>{1, 2, 3, 1, 2, 3});
  REQUIRE(spread(Values<TestType>({2, 1}, {1, 2})) == std::vector<TestType>{1, 1, 1, 2, 2, 2});
}

TEMPLATE_TEST_CASE("dim_size is the size of an axis", "", float, double) {
  const std::string dtype(DTypeName(DTypeOf<TestType>()));
  const Tensor x = RandomTensor<TestType>({2, 37}, 0, 1, 1);
  const Tensor y = Output({"dim_size", {x}, {{"axis", int64_t{1}}, {"dtype", dtype}}});
  REQUIRE(y.dims().empty());
  REQUIRE(y.values<TestType>()[0] == 37);
}

}  // namespace
}  // namespace cohort
