#include "common/kernels/device_coverage.h"

#include <array>
#include <catch2/catch.hpp>

#include "common/graph/expr.h"
#include "common/graph/program_builder.h"

namespace cohort {
namespace {

// (ids + ids made unique, rows of them) and a product, as a model has them.
Program LookupAndProduct() {
  ProgramBuilder b("lookup");
  const int batch = b.AddSymbol("batch", 4);
  const Expr ids = b.Input("ids", {DType::kInt64, {{4, batch}, {1}}});
  const auto [keys, inverse] = Unique(ids);
  const Expr rows = Gather(b.ReadRows("table", {DType::kFloat32, {{10}, {3}}}, keys), inverse);
  const Expr kernel = b.Read("kernel", {DType::kFloat32, {{3}, {2}}});
  b.AddOutput("y", MatMul(Reshape(rows, {-1, 3}), kernel));
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

// Adds a node of an op that no device has a kernel for.
ValueId AddFake(Program* program, ValueId input, const std::string& layer) {
  const auto output = static_cast<ValueId>(program->values.size());
  program->values.push_back(program->type(input));
  program->nodes.push_back({.op = "fake", .name = layer, .inputs = {input}, .outputs = {output}});
  return output;
}

TEST_CASE("all operations of a program have kernels on devices") {
  const std::array programs = {LookupAndProduct()};
  CHECK(OpsOnCpu(programs).empty());
  CHECK(DeviceCoverageText(programs) == "on a GPU: all operations have kernels");
}

TEST_CASE("operations without a kernel on devices are named with their layers") {
  std::array programs = {LookupAndProduct(), LookupAndProduct()};
  const ValueId y = programs[0].outputs[0].value;
  AddFake(&programs[0], AddFake(&programs[0], y, "warp"), "twist");
  AddFake(&programs[1], programs[1].outputs[0].value, "warp");
  const std::vector<OpOnCpu> ops = OpsOnCpu(programs);
  REQUIRE(ops.size() == 1);
  CHECK(ops[0].op == "fake");
  CHECK(ops[0].layers == std::set<std::string>{"twist", "warp"});
  CHECK(DeviceCoverageText(programs) ==
        "on a GPU: these operations would run on the CPU, between copies: fake of float32 (layers: "
        "twist, warp)");
}

TEST_CASE("operations on ids before they are made unique run on the CPU always") {
  Program program = LookupAndProduct();
  // ids -> fake -> unique
  const ValueId ids = program.arguments[0].value;
  const ValueId warped = AddFake(&program, ids, "warp");
  for (Node& node : program.nodes) {
    if (node.op == "unique") node.inputs[0] = warped;
  }
  std::rotate(program.nodes.begin() + 1, program.nodes.end() - 1, program.nodes.end());
  CHECK(OpsOnCpu({{program}}).empty());
}

}  // namespace
}  // namespace cohort
