#include "common/graph/program_builder.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/graph/expr.h"
#include "common/graph/graph_test_util.h"
#include "common/graph/op_registry.h"
#include "common/graph/program_proto.h"
#include "common/graph/validate.h"
#include "proto/config.pb.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

TEST_CASE("a traced program is valid and has what it was given") {
  ProgramBuilder b("step");
  const int batch = b.AddSymbol("batch", 8);
  const Expr x = b.Input("x", {kF, {{8, batch}, {3}}});
  b.SetScope("dense");
  const Expr y = MatMul(x, b.Read("dense/kernel", {kF, {{3}, {2}}}));
  b.AddOutput("y", y);
  b.AddMetric("mean", ReduceSum(y), NumElements(y));
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  const Expr counts = ReduceSum(y, {0});
  const MetricExpr curve[] = {{"true_positives", counts}, {"false_positives", counts}};
  b.AddMetric("curve", finalizer, curve);
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  CHECK(program->name == "step");
  CHECK(program->arguments.size() == 1);
  CHECK(program->variables[0].name == "dense/kernel");
  CHECK(program->metrics[0].name == "mean");
  CHECK(program->metrics[1].finalizer->class_name() == "AUC");
  CHECK(program->weight == kNoValue);
  const auto& matmul = *std::find_if(program->nodes.begin(), program->nodes.end(),
                                     [](const Node& n) { return n.op == "matmul"; });
  CHECK(matmul.name == "dense");
  CHECK(TypeToString(program->type(matmul.outputs[0])) == "float32[batch<=8, 2]");
  CHECK(ValidateProgram(*program).ok());
}

TEST_CASE("metrics travel: a mean in the form that older versions know, others with accumulators") {
  ProgramBuilder b("step");
  const Expr y = b.Input("y", {kF, {{3}, {2}}});
  b.AddMetric("mean", ReduceSum(y), NumElements(y));
  v1::ClassConfig finalizer;
  finalizer.set_class_name("single");
  const MetricExpr most[] = {{"most", ReduceMax(y, {0}), Reduction::kMax}};
  b.AddMetric("most", finalizer, most);
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  v1::Program proto;
  ProgramToProto(*program, &proto);
  CHECK(proto.metrics(0).total() == program->metrics[0].accumulators[0].value);
  CHECK(proto.metrics(0).accumulators().empty());
  CHECK(proto.metrics(1).accumulators(0).reduction() == v1::REDUCE_MAX);
  CHECK(proto.metrics(1).total() == kNoValue);
  const auto back = ProgramFromProto(proto);
  REQUIRE(back.ok());
  REQUIRE(back->metrics.size() == 2);
  CHECK(back->metrics[0].finalizer == nullptr);
  CHECK(back->metrics[0].accumulators[1].name == "count");
  CHECK(back->metrics[1].finalizer->class_name() == "Single");
  CHECK(back->metrics[1].accumulators[0].reduction == Reduction::kMax);
  proto.mutable_metrics(1)->mutable_accumulators(0)->clear_reduction();
  CHECK(ProgramFromProto(proto).status().message() ==
        "program 'step': metric 'most': accumulator 'most': there is no reduction 0");
}

TEST_CASE("a metric without what its finalizer reads is refused") {
  ProgramBuilder b("step");
  const Expr y = b.Input("y", {kF, {{3}}});
  v1::ClassConfig finalizer;
  finalizer.set_class_name("AUC");
  const MetricExpr wrong[] = {{"positives", y}};
  b.AddMetric("curve", finalizer, wrong);
  CHECK(b.status().message() ==
        "metric 'curve': the finalizer AUC needs the accumulator 'true_positives'; there are "
        "positives");
}

TEST_CASE("reads and scalar constants are shared") {
  ProgramBuilder b("step");
  const ValueType type{kF, {{3}}};
  const Expr w = b.Read("w", type);
  CHECK(b.Read("w", type).id() == w.id());
  CHECK(b.Scalar(2, kF).id() == b.Scalar(2, kF).id());
  CHECK(b.Scalar(2, kF).id() != b.Scalar(2, DType::kFloat64).id());
  b.AddOutput("y", w * 2.0 + w * 2.0);
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  CHECK(CountOps(*program, "read") == 1);
  CHECK(CountOps(*program, "constant") == 1);
}

TEST_CASE("a variable has one type") {
  ProgramBuilder b("step");
  b.Read("w", {kF, {{3}}});
  b.Read("w", {kF, {{4}}});
  const auto program = std::move(b).Build();
  CHECK(program.status().message() ==
        "program 'step': variable 'w' is float32[3] and not float32[4]");
}

TEST_CASE("Build returns the first error") {
  ProgramBuilder b("step");
  const Expr a = b.Read("a", {kF, {{3}}});
  const Expr wrong = a + b.Read("b", {kF, {{4}}});
  CHECK_FALSE(wrong.valid());
  b.AddOutput("y", Relu(wrong) + a);
  const auto program = std::move(b).Build();
  CHECK(program.status().message() ==
        "program 'step': op 'add': float32[3] and float32[4] do not broadcast");
}

TEST_CASE("values of another program are refused") {
  ProgramBuilder a("a");
  ProgramBuilder b("b");
  const Expr x = a.Read("x", {kF, {}});
  const Expr y = b.Read("y", {kF, {}});
  CHECK_FALSE((x + y).valid());
  CHECK(a.status().message() == "an input of op 'add' belongs to another program");
  CHECK(b.status().ok());
}

TEST_CASE("inputs with a wrong type are refused") {
  ProgramBuilder b("step");
  CHECK_FALSE(b.Input("x", {kF, {{32, 1}}}).valid());
  CHECK(b.status().message() == "argument 'x': there is no symbol 1");
}

TEST_CASE("pruning drops what nothing depends on, and keeps arguments") {
  ProgramBuilder b("step");
  const int batch = b.AddSymbol("batch", 8);
  const ValueType table{kF, {{100}, {4}}};
  const Expr unused = b.Input("unused", {DType::kInt64, {{8, batch}}});
  const Expr ids = b.Input("ids", {DType::kInt64, {{8, batch}, {2}}});
  Gather(b.ReadRows("dead", table, Unique(unused).first), Unique(unused).second);
  const auto [keys, inverse] = Unique(ids);
  b.AddOutput("y", Relu(Gather(b.ReadRows("live", table, keys), inverse)));
  Exp(b.Read("dead_too", {kF, {{3}}}));
  const auto program = std::move(b).Build();
  REQUIRE(program.ok());
  CHECK(program->arguments.size() == 2);
  REQUIRE(program->variables.size() == 1);
  CHECK(program->variables[0].name == "live");
  REQUIRE(program->symbols.size() == 2);
  CHECK(program->symbols[1].capacity == 16);
  CHECK(CountOps(*program, "unique") == 1);
  CHECK(CountOps(*program, "exp") == 0);
  CHECK(TypeToString(program->type(program->outputs[0].value)) == "float32[batch<=8, 2, 4]");
  for (const Node& node : program->nodes) {
    if (node.op == "unique") CHECK(IntAttr(node, "symbol") == 2);
    if (node.op == "read_rows") CHECK(IntAttr(node, "variable") == 0);
  }
}

}  // namespace
}  // namespace cohort
