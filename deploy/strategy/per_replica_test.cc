#include "deploy/strategy/per_replica.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

using Catch::Contains;

Tensor Floats(Dims dims, const std::vector<float>& values) {
  return Tensor::FromValues<float>(std::move(dims), values);
}

std::vector<float> ValuesOf(const absl::StatusOr<Tensor>& tensor) {
  REQUIRE(tensor.ok());
  const auto values = tensor->values<float>();
  return {values.begin(), values.end()};
}

TEST_CASE("values of replicas are folded element by element") {
  const std::vector<Tensor> values = {Floats({2}, {1, 2}), Floats({2}, {3, 6})};
  CHECK(ValuesOf(ReduceTensors(ReduceOp::kSum, values)) == std::vector<float>{4, 8});
  CHECK(ValuesOf(ReduceTensors(ReduceOp::kMean, values)) == std::vector<float>{2, 4});
  CHECK(ReduceTensors(ReduceOp::kSum, values)->dims() == Dims{2});
}

TEST_CASE("axis 0 folds the rows of all replicas, each of which counts once") {
  const std::vector<Tensor> values = {Floats({3, 2}, {1, 10, 2, 20, 3, 30}),
                                      Floats({1, 2}, {6, 60})};
  CHECK(ValuesOf(ReduceTensors(ReduceOp::kSum, values, 0)) == std::vector<float>{12, 120});
  CHECK(ValuesOf(ReduceTensors(ReduceOp::kMean, values, 0)) == std::vector<float>{3, 30});
  CHECK(ReduceTensors(ReduceOp::kMean, values, 0)->dims() == Dims{2});
}

TEST_CASE("floats are summed in float64, and integers stay integers") {
  const std::vector<Tensor> floats = {Floats({}, {1e8F}), Floats({}, {1}), Floats({}, {-1e8F})};
  CHECK(ValuesOf(ReduceTensors(ReduceOp::kSum, floats)) == std::vector<float>{1});
  const std::vector<int64_t> big = {int64_t{1} << 60};
  const std::vector<Tensor> integers = {Tensor::FromValues<int64_t>({1}, big),
                                        Tensor::FromValues<int64_t>({1}, big)};
  const auto sum = ReduceTensors(ReduceOp::kSum, integers);
  REQUIRE(sum.ok());
  CHECK(sum->values<int64_t>()[0] == int64_t{1} << 61);
}

TEST_CASE("what cannot be folded is refused") {
  const auto message = [](ReduceOp op, std::vector<Tensor> values, std::optional<int> axis = {}) {
    const auto reduced = ReduceTensors(op, values, axis);
    CHECK(absl::IsInvalidArgument(reduced.status()));
    return std::string(reduced.status().message());
  };
  CHECK_THAT(message(ReduceOp::kSum, {}), Contains("no values"));
  CHECK_THAT(message(ReduceOp::kSum, {Floats({1}, {1}), Floats({2}, {1, 2})}),
             Contains("float32 [1] and float32 [2]"));
  CHECK_THAT(message(ReduceOp::kSum, {Floats({1}, {1}), Tensor::Zeros(DType::kInt32, {1})}),
             Contains("int32 [1]"));
  CHECK_THAT(message(ReduceOp::kSum, {Floats({}, {1})}, 0), Contains("scalar"));
  CHECK_THAT(message(ReduceOp::kSum, {Floats({1}, {1})}, 1), Contains("axis 1"));
  CHECK_THAT(message(ReduceOp::kMean, {Tensor::Zeros(DType::kInt64, {1})}),
             Contains("mean of int64"));
  CHECK_THAT(message(ReduceOp::kMean, {Floats({0, 2}, {})}, 0), Contains("no rows"));
  CHECK_THAT(message(ReduceOp::kSum, {Tensor::Zeros(DType::kBool, {1})}), Contains("bool"));
}

TEST_CASE("outputs are found by name") {
  const PerReplica results(
      {}, std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"loss", "x"}));
  REQUIRE(results.FindOutput("x").ok());
  CHECK(*results.FindOutput("x") == 1);
  CHECK_THAT(std::string(results.FindOutput("y").status().message()), Contains("loss, x"));
  CHECK_FALSE(PerReplica().FindOutput("x").ok());
}

}  // namespace
}  // namespace cohort
