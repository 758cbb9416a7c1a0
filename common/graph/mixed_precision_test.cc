#include "common/graph/mixed_precision.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/graph/expr.h"
#include "common/graph/program_proto.h"
#include "common/graph/validate.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

constexpr DType kF = DType::kFloat32;
constexpr LossScaling kScaling{.initial = 1024, .growth_steps = 10};

// Two layers, "a" and "b", and a product of the loss.
Program TwoLayers(const LossScaling& scaling = {}) {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", {kF, {{4, batch}, {3}}});
  b.SetScope("a");
  const Expr hidden = Relu(MatMul(x, b.Read("a/kernel", {kF, {{3}, {5}}})));
  b.SetScope("b");
  const Expr y = MatMul(hidden, b.Read("b/kernel", {kF, {{5}, {2}}}));
  b.SetScope("loss");
  const Expr loss = ReduceSum(Square(MatMul(y, y, false, true)));
  b.SetLoss(DimSize(y, 0));
  b.AddMetric("loss", loss, DimSize(y, 0));
  REQUIRE(
      (scaling.enabled() ? PushScaledGradients(&b, loss, scaling) : PushGradients(&b, loss)).ok());
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

int CountOf(const Program& program, Precision precision, std::string_view layer) {
  return static_cast<int>(std::ranges::count_if(program.nodes, [&](const Node& node) {
    return node.op == "matmul" && node.name == layer && PrecisionOf(node) == precision;
  }));
}

TEST_CASE("the products of layers have the precision, with those of their gradients") {
  const Program program = WithPrecision(TwoLayers(), Precision::kBfloat16, {"a"});
  CHECK(ValidateProgram(program).ok());
  CHECK(CountOf(program, Precision::kBfloat16, "a") == 2);  // x needs no gradient
  CHECK(CountOf(program, Precision::kFloat32, "a") == 0);
  CHECK(CountOf(program, Precision::kFloat32, "b") == 3);
  CHECK(CountOf(program, Precision::kBfloat16, "loss") == 0);
  CHECK(CountOf(WithPrecision(TwoLayers(), Precision::kFloat32, {"a"}), Precision::kFloat32, "a") ==
        2);
}

TEST_CASE("the gradient of a rounded product is rounded, too") {
  ProgramBuilder b("train");
  const Expr x = b.Input("x", {kF, {{2}, {4}, {4}, {1}}});
  const Expr kernel = b.Read("kernel", {kF, {{3}, {3}, {1}, {2}}});
  const Attrs conv = {{"strides", std::vector<int64_t>{1, 1}},
                      {"dilations", std::vector<int64_t>{1, 1}},
                      {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                      {"groups", int64_t{1}},
                      {"precision", std::string("float16")}};
  const Expr y = Reshape(b.Op("conv2d", {x, kernel}, conv), {2, 8});
  const Expr z =
      b.Op("matmul", {y, y}, {{"transpose_b", true}, {"precision", std::string("float16")}});
  b.SetLoss(b.Scalar(1, kF));
  REQUIRE(PushGradients(&b, ReduceSum(z)).ok());
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  int products = 0;
  for (const Node& node : program->nodes) {
    if (node.op != "matmul" && !node.op.starts_with("conv2d")) continue;
    CHECK(PrecisionOf(node) == Precision::kFloat16);
    ++products;
  }
  CHECK(products == 5);  // three of matmul, conv2d and its kernel's gradient
}

TEST_CASE("a precision must be known, and its operands float32") {
  ProgramBuilder unknown("test");
  const Expr a = unknown.Input("a", {kF, {{2}, {2}}});
  unknown.Op("matmul", {a, a}, {{"precision", std::string("int8")}});
  CHECK(unknown.status().message().find("precision \"int8\" is not float32, bfloat16 or float16") !=
        std::string::npos);
  ProgramBuilder wide("test");
  const Expr d = wide.Input("d", {DType::kFloat64, {{2}, {2}}});
  wide.Op("matmul", {d, d}, {{"precision", std::string("float16")}});
  CHECK(wide.status().message().find("needs operands of float32") != std::string::npos);
}

TEST_CASE("a scaled loss has the scale as the last argument, and the metric is not scaled") {
  const Program program = TwoLayers(kScaling);
  REQUIRE(program.arguments.size() == 2);
  CHECK(program.arguments.back().name == "loss_scale");
  CHECK(program.type(program.arguments.back().value) == ValueType{kF, {}});
  CHECK(program.loss_scaling == kScaling);
  for (const Push& push : program.pushes) {
    const auto maker = std::ranges::find_if(
        program.nodes, [&](const Node& node) { return node.outputs[0] == push.value; });
    CHECK(maker->op == "div");
  }
  v1::Program proto;
  ProgramToProto(program, &proto);
  const auto copy = ProgramFromProto(proto);
  REQUIRE(copy.ok());
  CHECK(copy->loss_scaling == kScaling);
  // Programs without a scale have the bytes of older versions.
  ProgramToProto(TwoLayers(), &proto);
  CHECK(!proto.has_loss_scaling());
}

TEST_CASE("a program with a loss scale that is no argument is refused") {
  Program program = TwoLayers();
  program.loss_scaling = kScaling;
  CHECK(ValidateProgram(program).message().find("last argument is no float32 scalar") !=
        std::string::npos);
  program = TwoLayers(kScaling);
  program.loss_scaling.initial = -1;
  CHECK(!ValidateProgram(program).ok());
}

}  // namespace
}  // namespace cohort
