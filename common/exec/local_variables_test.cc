#include "common/exec/local_variables.h"

#include <catch2/catch.hpp>

#include "common/exec/local_variables_test_util.h"
#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::VariableSpec Table(bool trainable) {
  v1::VariableSpec spec;
  spec.set_name("table");
  spec.set_dtype(v1::FLOAT32);
  spec.add_dims(3);
  spec.add_dims(2);
  spec.set_trainable(trainable);
  spec.mutable_initializer()->set_class_name("Zeros");
  return spec;
}

Program ProgramWith(const std::string& name, ValueType type) {
  Program program;
  program.name = "test";
  program.variables.push_back({name, std::move(type)});
  return program;
}

struct Fixture {
  explicit Fixture(double momentum, bool trainable = true) {
    const v1::VariableSpec table = Table(trainable);
    const v1::OptimizerSpec sgd =
        OptimizerOf("SGD", {{"learning_rate", ConfigOf(0.5)}, {"momentum", ConfigOf(momentum)}});
    variables = *LocalVariables::Create({&table, 1}, {&sgd, 1});
    const float values[] = {1, 2, 3, 4, 5, 6};
    testing::SetVariable(*variables, "table", Tensor::FromValues<float>({3, 2}, values));
    access = *variables->ForProgram(ProgramWith("table", {DType::kFloat32, {{3}, {2}}}));
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

  std::unique_ptr<LocalVariables> variables;
  std::unique_ptr<VariableAccess> access;
};

TEST_CASE("pulls give whole variables and rows, after the push of the same exchange") {
  Fixture f(0);
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

TEST_CASE("slots are kept between pushes, also of one closure") {
  Fixture f(0.5);
  const float gradient[] = {1, 1, 1, 1, 1, 1};
  const PushItem item{0, PushKind::kGradient, false, {}, gradient, 0};
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(testing::TensorsOf(*f.variables, "table").at(1).values<float>()[0] == -0.75f);
  REQUIRE(f.Whole()[0] == 1 - 0.5f - 0.75f);
}

TEST_CASE("a program may read averages, of variables that have them") {
  const v1::VariableSpec table = Table(true);
  const bool averages = GENERATE(true, false);
  const v1::OptimizerSpec sgd = OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)},
                                                    {"use_ema", ConfigOf(averages)},
                                                    {"ema_momentum", ConfigOf(0.75)}});
  const auto variables = *LocalVariables::Create({&table, 1}, {&sgd, 1});
  Program program = ProgramWith("table", {DType::kFloat32, {{3}, {2}}});
  const auto values = *variables->ForProgram(program);
  program.variables[0].reads_average = true;
  const auto averaged = *variables->ForProgram(program);
  const float gradient[] = {1, 1, 1, 1, 1, 1};
  const PushItem item{0, PushKind::kGradient, false, {}, gradient, 0};
  PushBatch push;
  push.items = {&item, 1};
  push.stamp.weight = 1;
  for (uint64_t step = 0; step < 2; ++step) {
    push.stamp.place = step;
    REQUIRE(values->Exchange(&push, nullptr).ok());
  }
  const auto first = [](VariableAccess* access) {
    std::vector<float> out(6);
    PullItem whole;
    whole.destination = out.data();
    const PullBatch pull{0, 0, {&whole, 1}};
    REQUIRE(access->Exchange(nullptr, &pull).ok());
    return out[0];
  };
  CHECK(first(values.get()) == -2);
  CHECK(first(averaged.get()) == (averages ? -1.25F : -2));
}

TEST_CASE("assign_add and moving averages") {
  Fixture f(0, /*trainable=*/false);
  const float value[] = {10, 10, 10, 10, 10, 10};
  const int64_t keys[] = {1};
  const PushItem add{0, PushKind::kAssignAdd, false, {}, value, 0};
  const PushItem average{0, PushKind::kEma, true, keys, value, 0.75};
  REQUIRE(f.PushItems({&add, 1}).ok());
  REQUIRE(f.PushItems({&average, 1}).ok());
  REQUIRE(f.Whole() == std::vector<float>{11, 12, 12.25f, 13, 15, 16});
}

// As in Keras: 1 - momentum is not computed in float32.
TEST_CASE("the rest of a momentum is rounded once") {
  Fixture f(0, /*trainable=*/false);
  const float value[] = {1000, 0, 0, 0, 0, 0};
  const PushItem item{0, PushKind::kEma, false, {}, value, 0.99};
  REQUIRE(f.PushItems({&item, 1}).ok());
  REQUIRE(f.Whole()[0] == 1 * 0.99f + 1000 * static_cast<float>(1.0 - 0.99));
  REQUIRE(f.Whole()[0] != 1 * 0.99f + 1000 * (1 - 0.99f));
}

TEST_CASE("an exchange that is refused changes nothing, and names the row") {
  Fixture f(0);
  const float value[] = {10, 10, 10, 10, 10, 10};
  const int64_t beyond[] = {0, 3};
  const PushItem rows{0, PushKind::kGradient, true, beyond, value, 0};
  const absl::Status pushed = f.PushItems({&rows, 1});
  CHECK(pushed.code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(pushed.message()).starts_with("row 3 of variable 'table', which has 3 rows"));
  float out[4];
  const PullItem item{0, true, beyond, out};
  const PullBatch pull{0, 0, {&item, 1}};
  CHECK(f.access->Exchange(nullptr, &pull).status() == pushed);
  CHECK(f.Whole() == std::vector<float>{1, 2, 3, 4, 5, 6});
  Fixture untrained(0, /*trainable=*/false);
  const PushItem gradient{0, PushKind::kGradient, false, {}, value, 0};
  CHECK(untrained.PushItems({&gradient, 1}).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("a program finds its variables by name, dtype and shape") {
  Fixture f(0);
  const auto create = [&](const std::string& name, ValueType type) {
    return f.variables->ForProgram(ProgramWith(name, std::move(type))).status().code();
  };
  CHECK(create("tabel", {DType::kFloat32, {{3}, {2}}}) == absl::StatusCode::kNotFound);
  CHECK(create("table", {DType::kFloat32, {{2}, {3}}}) == absl::StatusCode::kInvalidArgument);
  CHECK(create("table", {DType::kFloat64, {{3}, {2}}}) == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("an interrupted access is cancelled") {
  Fixture f(0);
  f.access->Interrupt();
  REQUIRE(f.access->Exchange(nullptr, nullptr).status().code() == absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace cohort
