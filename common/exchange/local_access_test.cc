#include "common/exchange/local_access.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

std::unique_ptr<OptimizerRule> Sgd(double momentum) {
  return *OptimizerRule::Create(
      OptimizerOf("SGD", {{"learning_rate", ConfigOf(0.5)}, {"momentum", ConfigOf(momentum)}}));
}

Program ProgramWith(const std::string& name, ValueType type) {
  Program program;
  program.name = "test";
  program.variables.push_back({name, std::move(type)});
  return program;
}

struct Fixture {
  explicit Fixture(std::unique_ptr<OptimizerRule> r) : rule(std::move(r)) {
    const float values[] = {1, 2, 3, 4, 5, 6};
    REQUIRE(variables.Add("table", Tensor::FromValues<float>({3, 2}, values), rule.get()).ok());
    access = *LocalAccess::Create(&variables, ProgramWith("table", {DType::kFloat32, {{3}, {2}}}));
  }
  std::vector<float> Whole() {
    std::vector<float> out(6);
    PullItem item;
    item.destination = out.data();
    const PullBatch pull{0, 0, {&item, 1}};
    REQUIRE(access->Exchange(nullptr, &pull).ok());
    return out;
  }
  absl::Status PushItems(std::span<const PushItem> items, double weight = 1) {
    PushBatch push;
    push.stamp.weight = weight;
    push.items = items;
    return access->Exchange(&push, nullptr).status();
  }

  const std::unique_ptr<OptimizerRule> rule;
  LocalVariables variables;
  std::unique_ptr<LocalAccess> access;
};

TEST_CASE("pulls give whole variables and rows, after the push of the same exchange") {
  Fixture f(Sgd(0));
  const int64_t keys[] = {0, 2};
  const float gradient[] = {2, 2, 4, 4};
  const PushItem push_item{0, PushKind::kGradient, true, keys, gradient, 0};
  float rows[4];
  const PullItem pull_item{0, true, keys, rows};
  PushBatch push;
  push.stamp.weight = 2;
  push.items = {&push_item, 1};
  const PullBatch pull{0, 0, {&pull_item, 1}};
  const auto result = f.access->Exchange(&push, &pull);
  REQUIRE(result.ok());
  REQUIRE(result->push.applied == 1);
  REQUIRE(std::vector<float>(rows, rows + 4) == std::vector<float>{0.5f, 1.5f, 4, 5});
  REQUIRE(f.Whole() == std::vector<float>{0.5f, 1.5f, 3, 4, 4, 5});
}

TEST_CASE("slots are kept between pushes") {
  Fixture f(Sgd(0.5));
  const float gradient[] = {1, 1, 1, 1, 1, 1};
  const PushItem item{0, PushKind::kGradient, false, {}, gradient, 0};
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(f.variables.Find("table")->slots[0].values<float>()[0] == -0.75f);
  REQUIRE(f.Whole()[0] == 1 - 0.5f - 0.75f);
}

TEST_CASE("assign_add and moving averages") {
  Fixture f(nullptr);
  const float value[] = {10, 10, 10, 10, 10, 10};
  const int64_t keys[] = {1};
  const PushItem items[] = {{0, PushKind::kAssignAdd, false, {}, value, 0},
                            {0, PushKind::kEma, true, keys, value, 0.75}};
  REQUIRE(f.PushItems(items).ok());
  REQUIRE(f.Whole() == std::vector<float>{11, 12, 12.25f, 13, 15, 16});
}

// As common/tablet/shard_apply.cc and Keras: 1 - momentum is not computed in float32.
TEST_CASE("the rest of a momentum is rounded once") {
  Fixture f(nullptr);
  const float value[] = {1000, 0, 0, 0, 0, 0};
  const PushItem item{0, PushKind::kEma, false, {}, value, 0.99};
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(f.Whole()[0] == 1 * 0.99f + 1000 * static_cast<float>(1.0 - 0.99));
  REQUIRE(f.Whole()[0] != 1 * 0.99f + 1000 * (1 - 0.99f));
}

TEST_CASE("a push that is refused changes nothing") {
  Fixture f(Sgd(0));
  const float value[] = {10, 10, 10, 10, 10, 10};
  const int64_t beyond[] = {0, 3}, descending[] = {2, 0};
  for (const auto& keys :
       {std::span<const int64_t>(beyond), std::span<const int64_t>(descending)}) {
    const PushItem items[] = {{0, PushKind::kAssignAdd, false, {}, value, 0},
                              {0, PushKind::kGradient, true, keys, value, 0}};
    REQUIRE(f.PushItems(items).code() == absl::StatusCode::kInvalidArgument);
  }
  REQUIRE(f.Whole() == std::vector<float>{1, 2, 3, 4, 5, 6});
  Fixture untrained(nullptr);
  const PushItem item{0, PushKind::kGradient, false, {}, value, 0};
  REQUIRE(untrained.PushItems({&item, 1}).code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a program finds its variables by name, dtype and shape") {
  Fixture f(nullptr);
  const auto create = [&](const std::string& name, ValueType type) {
    return LocalAccess::Create(&f.variables, ProgramWith(name, std::move(type))).status();
  };
  REQUIRE(create("tabel", {DType::kFloat32, {{3}, {2}}}).code() == absl::StatusCode::kNotFound);
  REQUIRE(create("table", {DType::kFloat32, {{2}, {3}}}).code() ==
          absl::StatusCode::kInvalidArgument);
  REQUIRE(create("table", {DType::kFloat64, {{3}, {2}}}).code() ==
          absl::StatusCode::kInvalidArgument);
  REQUIRE(f.variables.Add("table", Tensor::Zeros(DType::kFloat32, {1}), nullptr).code() ==
          absl::StatusCode::kAlreadyExists);
}

TEST_CASE("an interrupted access is cancelled") {
  Fixture f(nullptr);
  f.access->Interrupt();
  REQUIRE(f.access->Exchange(nullptr, nullptr).status().code() == absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace cohort
