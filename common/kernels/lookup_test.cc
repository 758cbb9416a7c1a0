// unique, gather, gather_grad, bag, bag_grad.
#include <cmath>
#include <limits>
#include <set>

#include "common/kernels/kernel_test_util.h"

namespace cohort {
namespace {

using testing::Near;
using testing::Output;
using testing::RandomTensor;
using testing::RunOp;
using testing::Values;

void CheckUnique(const std::vector<int64_t>& ids) {
  const auto n = static_cast<int64_t>(ids.size());
  const Tensor x = Tensor::FromValues<int64_t>({n}, std::span<const int64_t>(ids));
  testing::OpRun run{"unique", {x}, {{"symbol", int64_t{1}}}};
  run.symbol_capacity = n;
  const testing::OpResult result = RunOp(run);
  REQUIRE(result.status.ok());
  const std::set<int64_t> expected(ids.begin(), ids.end());
  REQUIRE(result.count == static_cast<int64_t>(expected.size()));
  const auto keys = result.outputs[0].values<int64_t>().first(expected.size());
  REQUIRE(std::ranges::equal(keys, expected));  // a set ascends too
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto position = static_cast<size_t>(result.outputs[1].values<int64_t>()[i]);
    REQUIRE(position < expected.size());
    REQUIRE(keys[position] == ids[i]);
  }
}

TEST_CASE("unique keys ascend, and the inverse finds every id") {
  CheckUnique({5});
  CheckUnique({3, 1, 3, 3, 2, 1});
  CheckUnique({-4, 9, -4, 0});
  CheckUnique({std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), 0, 0,
               std::numeric_limits<int64_t>::min()});
  std::mt19937_64 random(7);
  for (const uint64_t range : {8u, 1000u, 100000u, 1u << 30}) {
    std::vector<int64_t> ids(700);
    for (int64_t& id : ids) id = static_cast<int64_t>(random() % range);
    CheckUnique(ids);
  }
  std::vector<int64_t> hashes(500);
  for (size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = i % 3 == 0 && i > 0 ? hashes[i - 1] : static_cast<int64_t>(random());
  }
  CheckUnique(hashes);
}

TEST_CASE("ids that are padding have no key") {
  constexpr int64_t kPadding = std::numeric_limits<int64_t>::min();
  const auto run = [](const std::vector<int64_t>& ids, int64_t padding) {
    const auto n = static_cast<int64_t>(ids.size());
    testing::OpRun op{"unique",
                      {Tensor::FromValues<int64_t>({n}, std::span<const int64_t>(ids))},
                      {{"symbol", int64_t{1}}, {"padding", padding}}};
    op.symbol_capacity = n;
    const testing::OpResult result = RunOp(op);
    REQUIRE(result.status.ok());
    const auto keys = result.outputs[0].values<int64_t>().first(static_cast<size_t>(result.count));
    const auto inverse = result.outputs[1].values<int64_t>();
    return std::pair(std::vector<int64_t>(keys.begin(), keys.end()),
                     std::vector<int64_t>(inverse.begin(), inverse.end()));
  };
  using Found = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  CHECK(run({0, 7, 0, 3, 7, 0}, 0) == Found{{3, 7}, {-1, 1, -1, 0, 1, -1}});
  CHECK(run({7, 3, 7}, 0) == Found{{3, 7}, {1, 0, 1}});
  CHECK(run({-1, -1}, -1) == Found{{}, {-1, -1}});
  // Far apart: sorted by digits.
  CHECK(run({kPadding, 1000000000000, 5, kPadding, 5, kPadding}, kPadding) ==
        Found{{5, 1000000000000}, {-1, 1, 0, -1, 0, -1}});
}

TEMPLATE_TEST_CASE("gather takes rows by index", "", float, double) {
  const Tensor rows = RandomTensor<TestType>({5, 3, 2}, 0, 1, 1);
  const Tensor index = Values<int64_t>({2, 2}, {4, 0, 4, 2});
  const Tensor y = Output({"gather", {rows, index}});
  REQUIRE(y.dims() == Dims{2, 2, 3, 2});
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 6; ++j) {
      const size_t row = static_cast<size_t>(index.values<int64_t>()[i]);
      REQUIRE(y.values<TestType>()[i * 6 + j] == rows.values<TestType>()[row * 6 + j]);
    }
  }
}

TEMPLATE_TEST_CASE("gather_grad sums the rows of equal indices", "", float, double) {
  const Tensor rows = RandomTensor<TestType>({4, 3}, 0, 1, 1);
  const Tensor index = Values<int64_t>({5}, {3, 1, 3, 0, 3});
  const Tensor grad = RandomTensor<TestType>({5, 3}, -1, 1, 2);
  const Tensor y = Output({"gather_grad", {grad, index, rows}});
  REQUIRE(y.dims() == rows.dims());
  for (size_t row = 0; row < 4; ++row) {
    for (size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (size_t i = 0; i < 5; ++i) {
        if (index.values<int64_t>()[i] == static_cast<int64_t>(row)) {
          sum += grad.values<TestType>()[i * 3 + j];
        }
      }
      REQUIRE(Near<TestType>(y.values<TestType>()[row * 3 + j], sum));
    }
  }
}

// Bags of two records: {3, 1}, and nothing.
TEMPLATE_TEST_CASE("a bag is the sum of the rows that a list names", "", float, double) {
  const Tensor rows = Values<TestType>({4, 2}, {1, 2, 10, 20, 100, 200, 1000, 2000});
  const Tensor index = Values<int64_t>({2, 3}, {3, -1, 1, -1, -1, -1});
  const Tensor weights = Values<TestType>({2, 3}, {2, NAN, -1, NAN, NAN, 5});
  const auto values = [](const Tensor& y) {
    return std::vector<TestType>(y.values<TestType>().begin(), y.values<TestType>().end());
  };
  CHECK(values(Output({"bag", {rows, index}})) == std::vector<TestType>{1010, 2020, 0, 0});
  CHECK(values(Output({"bag", {rows, index, weights}})) == std::vector<TestType>{1990, 3980, 0, 0});
  const Tensor grad = Values<TestType>({2, 2}, {3, 4, 7, 8});
  CHECK(values(Output({"bag_grad", {grad, index, rows}})) ==
        std::vector<TestType>{0, 0, 3, 4, 0, 0, 3, 4});
  CHECK(values(Output({"bag_grad", {grad, index, rows, weights}})) ==
        std::vector<TestType>{0, 0, -3, -4, 0, 0, 6, 8});
}

TEST_CASE("an index of a bag out of range is an error that says which") {
  const Tensor rows = RandomTensor<float>({4, 3}, 0, 1, 1);
  const Tensor grad = RandomTensor<float>({1, 3}, 0, 1, 1);
  for (const int64_t bad : {int64_t{4}, int64_t{-2}}) {
    const Tensor index = Values<int64_t>({1, 2}, {-1, bad});
    for (const absl::Status& status :
         {RunOp({"bag", {rows, index}}).status, RunOp({"bag_grad", {grad, index, rows}}).status}) {
      REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
      REQUIRE(status.message() ==
              fmt::format("index {} at position 1 does not lie in [0, 4)", bad));
    }
  }
}

TEST_CASE("an index out of range is an error that says which") {
  const Tensor rows = RandomTensor<float>({4, 3}, 0, 1, 1);
  const Tensor grad = RandomTensor<float>({2, 3}, 0, 1, 1);
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const Tensor index = Values<int64_t>({2}, {0, bad});
    for (const absl::Status& status : {RunOp({"gather", {rows, index}}).status,
                                       RunOp({"gather_grad", {grad, index, rows}}).status}) {
      REQUIRE(status.code() == absl::StatusCode::kInvalidArgument);
      REQUIRE(status.message() ==
              fmt::format("index {} at position 1 does not lie in [0, 4)", bad));
    }
  }
}

}  // namespace
}  // namespace cohort
