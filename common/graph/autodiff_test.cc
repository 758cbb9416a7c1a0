// Tests the structure of what autodiff makes. The rooms that have kernels (common/kernels,
// common/exec) check the numbers against central differences.
#include "common/graph/autodiff.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/graph/expr.h"
#include "common/graph/graph_test_util.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

TEST_CASE("a dense layer: one product forward, one back, none for the batch") {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 32);
  const Expr x = b.Input("x", {kF, {{32, batch}, {6}}});
  const Expr w = b.Read("w", {kF, {{6}, {4}}});
  const Expr bias = b.Read("b", {kF, {{4}}});
  const Expr y = Relu(MatMul(x, w) + bias);
  b.SetLoss(DimSize(x, 0));
  REQUIRE(PushGradients(&b, ReduceSum(Square(y))).ok());
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  CHECK(CountOps(*program, "matmul") == 2);
  REQUIRE(program->pushes.size() == 2);
  CHECK(TypeToString(program->type(program->pushes[0].value)) == "float32[6, 4]");
  CHECK(TypeToString(program->type(program->pushes[1].value)) == "float32[4]");
  CHECK(program->pushes[0].keys == kNoValue);
}

TEST_CASE("a variable that is not wanted has no gradient, and no operation computes one") {
  ProgramBuilder b("train");
  const Expr x = b.Input("x", {kF, {{32}, {6}}});
  const Expr w = b.Read("w", {kF, {{6}, {4}}});
  const Expr y = MatMul(x, w) + b.Read("b", {kF, {{4}}});
  b.SetLoss(DimSize(x, 0));
  const auto wanted = [](std::string_view name) { return name != "w"; };
  REQUIRE(PushGradients(&b, ReduceSum(Square(y)), wanted).ok());
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  REQUIRE(program->pushes.size() == 1);
  CHECK(program->variables[static_cast<size_t>(program->pushes[0].variable)].name == "b");
  CHECK(CountOps(*program, "matmul") == 1);
}

TEST_CASE("the gradient with respect to rows is sparse, under the keys they were read by") {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 32);
  const Expr ids = b.Input("ids", {DType::kInt64, {{32, batch}, {3}}});
  const auto [keys, inverse] = Unique(ids);
  const Expr rows = b.ReadRows("table", {kF, {{1000}, {8}}}, keys);
  const Expr loss = ReduceSum(Square(ReduceMean(Gather(rows, inverse), {1})));
  const auto gradients = VariableGradients(&b, loss);
  REQUIRE(gradients.ok());
  REQUIRE(gradients->size() == 1);
  CHECK(gradients->at(0).keys.id() == keys.id());
  CHECK(TypeToString(gradients->at(0).value.type()) == "float32[s2<=96, 8]");
}

TEST_CASE("a variable read whole and by rows has a dense gradient") {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 32);
  const ValueType table{kF, {{50}, {8}}};
  const auto [keys, inverse] = Unique(b.Input("ids", {DType::kInt64, {{32, batch}}}));
  const Expr x = Gather(b.ReadRows("table", table, keys), inverse);
  const Expr logits = MatMul(x, b.Read("table", table), false, true);
  const auto gradients = VariableGradients(&b, ReduceSum(Square(logits)));
  REQUIRE(gradients.ok());
  REQUIRE(gradients->size() == 1);
  CHECK_FALSE(gradients->at(0).keys.valid());
  CHECK(TypeToString(gradients->at(0).value.type()) == "float32[50, 8]");
}

TEST_CASE("rows under two sets of keys are refused, saying what to do") {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 32);
  const ValueType table{kF, {{50}, {8}}};
  Expr sum;
  for (const char* name : {"a", "b"}) {
    const auto [keys, inverse] = Unique(b.Input(name, {DType::kInt64, {{32, batch}}}));
    const Expr x = Gather(b.ReadRows("table", table, keys), inverse);
    sum = sum.valid() ? sum + x : x;
  }
  const auto gradients = VariableGradients(&b, ReduceSum(sum));
  CHECK(gradients.status().code() == absl::StatusCode::kUnimplemented);
  CHECK(gradients.status().message().find("'table' is read by rows under 2 sets of keys") !=
        absl::string_view::npos);
}

TEST_CASE("variables after integers, counts and comparisons have no gradient") {
  ProgramBuilder b("train");
  const Expr w = b.Read("w", {kF, {{6}, {4}}});
  const Expr v = b.Read("v", {kF, {{4}}});
  const Expr picked = Cast(ArgMax(w), kF);
  const Expr compared = Select(Greater(v, ReduceSum(w)), v, v);
  const Expr loss = ReduceSum(picked) + ReduceSum(compared) * DimSize(w, 0);
  const auto gradients = VariableGradients(&b, loss);
  REQUIRE(gradients.ok());
  REQUIRE(gradients->size() == 1);
  CHECK(gradients->at(0).variable == 1);
}

TEST_CASE("a value used twice gets the sum of both gradients") {
  ProgramBuilder b("train");
  const Expr x = b.Read("x", {kF, {}});
  const auto once = Gradients(x * 3.0, std::vector<Expr>{x});
  REQUIRE(once.ok());
  const size_t before = b.program().nodes.size();
  const auto twice = Gradients(x * x, std::vector<Expr>{x});
  REQUIRE(twice.ok());
  const Program& program = b.program();
  const auto& last = program.nodes.back();
  CHECK(last.op == "add");
  CHECK(last.outputs[0] == twice->at(0).id());
  CHECK(program.nodes.size() > before);
}

TEST_CASE("gradients of gradients are programs too") {
  ProgramBuilder b("train");
  const Expr x = b.Read("x", {kF, {{5}}});
  const auto first = Gradients(ReduceSum(Tanh(x)), std::vector<Expr>{x});
  REQUIRE(first.ok());
  const auto second = Gradients(ReduceSum(Square(first->at(0))), std::vector<Expr>{x});
  REQUIRE(second.ok());
  CHECK(second->at(0).type() == x.type());
}

// Every op whose output floats: its rule makes gradients of exactly its inputs' types (autodiff
// refuses others), also if an operand was broadcast or the batch is bounded.
TEST_CASE("every gradient rule makes gradients of its inputs' types") {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 32);
  const Dim n{32, batch};
  const Expr x = b.Input("x", {kF, {n, {6}}});
  const Expr y = b.Input("y", {kF, {n, {6}}});
  const Expr column = b.Input("column", {kF, {n, {1}}});
  const Expr row = b.Input("row", {kF, {{6}}});
  const Expr w = b.Input("w", {kF, {{6}, {4}}});
  const Expr labels = b.Input("labels", {DType::kInt64, {n}});
  const Expr cube = Reshape(x, {-1, 2, 3});
  const Expr static_cube = b.Input("c", {kF, {{2}, {3}, {4}}});
  const std::vector<Expr> parts = {x, column, y};
  const Expr pooled = MaxPool(cube, {2}, {1}, "same");
  const Attrs pool = {{"window", std::vector<int64_t>{2}},
                      {"strides", std::vector<int64_t>{1}},
                      {"padding", std::string("same")}};
  const Expr image = Reshape(x, {-1, 1, 2, 3});
  const Expr kernel = Reshape(w, {1, 2, 3, 4});
  const Expr convolved = Conv2D(image, kernel, {});
  Attrs kernel_grad = {{"strides", std::vector<int64_t>{1, 1}},
                       {"dilations", std::vector<int64_t>{1, 1}},
                       {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                       {"groups", int64_t{1}},
                       {"size", std::vector<int64_t>{1, 2}}};
  const std::vector<Expr> results = {x + row,
                                     x - column,
                                     x * row,
                                     x / row,
                                     row / x,
                                     Maximum(column, row),
                                     Maximum(x, 0.5 * y),
                                     Minimum(column, row),
                                     Select(Greater(x, row), column, y),
                                     -x,
                                     Exp(x),
                                     Log(x),
                                     Sqrt(x),
                                     Square(x),
                                     Abs(x),
                                     Relu(x),
                                     Sigmoid(x),
                                     Tanh(x),
                                     Erf(x),
                                     Pow(x, row),
                                     Log1p(x),
                                     Expm1(x),
                                     Rsqrt(x),
                                     Sin(Cos(Atan(x))),
                                     Softplus(x),
                                     Clip(x, 0, 1),
                                     Softmax(x),
                                     LogSoftmax(x),
                                     Sparsemax(x),
                                     Cast(Cast(x, DType::kFloat64), kF),
                                     MatMul(x, w),
                                     MatMul(w, x, true, true),
                                     MatMul(x, y, true, false),
                                     MatMul(x, y, false, true),
                                     BatchMatMul(cube, cube, true, false),
                                     BatchMatMul(cube, cube, false, true),
                                     Concat(parts, 1),
                                     Slice(x, 1, 1, 2),
                                     Slice(x, 1, 0, 6),
                                     Transpose(cube, {0, 2, 1}),
                                     ReduceSum(cube, {1}),
                                     ReduceSum(cube, {0}),
                                     ReduceSum(cube, {0, 2}),
                                     ReduceSum(cube, {2}, true),
                                     ReduceMax(cube, {1, 2}),
                                     ReduceMax(static_cube, {0}),
                                     ReduceMax(static_cube, {1}),
                                     ReduceProd(cube, {1}),
                                     ReduceProd(cube, {2}, true),
                                     ReduceMin(cube, {1, 2}),
                                     ReduceMean(cube, {0, 1}),
                                     BroadcastLike(row, x),
                                     Dropout(x, 0.25, 7).first,
                                     SigmoidCrossEntropy(x, y),
                                     SparseSoftmaxCrossEntropy(labels, x),
                                     Gather(w, labels),
                                     GatherGrad(Gather(w, labels), labels, w),
                                     pooled,
                                     b.Op("max_pool", {cube, Square(cube)}, pool),
                                     b.Op("max_pool_grad", {pooled, cube}, pool),
                                     b.Op("avg_pool", {cube}, pool),
                                     b.Op("avg_pool_grad", {pooled, cube}, pool),
                                     convolved,
                                     Conv2DInputGrad(convolved, kernel, {1, 2}, {}),
                                     b.Op("conv2d_kernel_grad", {image, convolved}, kernel_grad),
                                     BatchNormTrain(x, row, row * 2.0, 0.1).y};
  Expr loss = b.Scalar(0, kF);
  for (const Expr& result : results) {
    REQUIRE(result.valid());
    loss = loss + ReduceSum(result);
  }
  const std::vector<Expr> wrt = {x, y, column, row, w, static_cube};
  const auto gradients = Gradients(loss, wrt);
  REQUIRE(gradients.status().message() == "");
  for (size_t i = 0; i < wrt.size(); ++i) {
    REQUIRE(gradients->at(i).valid());
    CHECK(gradients->at(i).type() == wrt[i].type());
    b.AddOutput("g", gradients->at(i));
  }
  const auto program = std::move(b).Build();
  CHECK(program.status().message() == "");
}

TEST_CASE("what is no scalar is no loss") {
  ProgramBuilder b("train");
  const Expr x = b.Read("x", {kF, {{5}}});
  CHECK(Gradients(x, std::vector<Expr>{x}).status().message() ==
        "the loss must be a floating scalar, not float32[5]");
  CHECK_FALSE(Gradients(Expr(), {}).ok());
}

}  // namespace
}  // namespace cohort
