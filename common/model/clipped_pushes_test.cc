#include "common/model/clipped_pushes.h"

#include <catch2/catch.hpp>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/graph/program_proto.h"
#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

Program TwoVariables() {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 4);
  const Expr x = b.Input("x", {DType::kFloat32, {{4, batch}, {3}}});
  const Expr a = b.Read("a", {DType::kFloat32, {{3}, {1}}});
  const Expr c = b.Read("c", {DType::kFloat32, {{1}}});
  const Expr y = MatMul(x, a) + c;
  b.SetLoss(DimSize(y, 0));
  REQUIRE(PushGradients(&b, ReduceSum(Square(y))).ok());
  auto program = std::move(b).Build();
  REQUIRE(program.ok());
  return *std::move(program);
}

v1::Layout TwoOptimizers(const v1::OptimizerSpec& first, const v1::OptimizerSpec& second) {
  v1::Layout layout;
  for (const char* name : {"a", "c"}) {
    v1::VariableSpec* const variable = layout.add_variables();
    variable->set_name(name);
    variable->set_trainable(true);
    variable->set_optimizer(static_cast<uint32_t>(layout.variables_size() - 1));
  }
  *layout.add_optimizers() = first;
  *layout.add_optimizers() = second;
  return layout;
}

size_t CountOf(const Program& program, std::string_view op) {
  return static_cast<size_t>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                           [op](const Node& node) { return node.op == op; }));
}

TEST_CASE("only the gradients of optimizers that clip are changed") {
  const Program program = TwoVariables();
  const v1::OptimizerSpec plain = OptimizerOf("SGD", {});
  const v1::OptimizerSpec clipping = OptimizerOf("SGD", {{"clipvalue", ConfigOf(0.5)}});
  const v1::Layout layout = TwoOptimizers(plain, clipping);
  CHECK(*PushesAreClipped(program, TwoOptimizers(plain, plain)));
  CHECK(Fingerprint(*ClipPushes(program, TwoOptimizers(plain, plain))) == Fingerprint(program));
  CHECK_FALSE(*PushesAreClipped(program, layout));
  const auto clipped = ClipPushes(program, layout);
  REQUIRE(clipped.ok());
  CHECK(CountOf(*clipped, "minimum") == 1);
  CHECK(*PushesAreClipped(*clipped, layout));
  CHECK(Fingerprint(*ClipPushes(*clipped, layout)) == Fingerprint(*clipped));
}

TEST_CASE("a norm is of one variable, or of all variables of an optimizer") {
  const Program program = TwoVariables();
  const auto sqrt = [&](const char* argument, uint32_t second) {
    const v1::OptimizerSpec optimizer = OptimizerOf("SGD", {{argument, ConfigOf(0.5)}});
    v1::Layout layout = TwoOptimizers(optimizer, optimizer);
    layout.mutable_variables(1)->set_optimizer(second);
    const auto clipped = ClipPushes(program, layout);
    INFO(clipped.status());
    REQUIRE(clipped.ok());
    return CountOf(*clipped, "sqrt");
  };
  CHECK(sqrt("clipnorm", 0) == 2);
  CHECK(sqrt("global_clipnorm", 0) == 1);
  CHECK(sqrt("global_clipnorm", 1) == 2);
}

TEST_CASE("variables that the layout lacks are not clipped") {
  const Program program = TwoVariables();
  CHECK(*PushesAreClipped(program, v1::Layout()));
  CHECK(ClipPushes(program, v1::Layout()).ok());
}

}  // namespace
}  // namespace cohort
