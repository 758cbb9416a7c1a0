// Fused chains of elementwise nodes compute what the nodes compute one by one.
#include "common/graph/fuse.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "common/exec/executable.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"

namespace cohort {
namespace {

size_t CountFused(const Program& program) {
  return static_cast<size_t>(
      std::ranges::count_if(program.nodes, [](const Node& node) { return node.op == "fused"; }));
}

Tensor RandomTensor(DType dtype, Dims dims, std::mt19937* random) {
  Tensor t = Tensor::Zeros(dtype, dims);
  std::uniform_real_distribution<double> draw(-2, 2);
  if (dtype == DType::kFloat32) {
    for (float& v : t.mutable_values<float>()) v = static_cast<float>(draw(*random));
  } else {
    for (double& v : t.mutable_values<double>()) v = draw(*random);
  }
  return t;
}

// One elementwise node of values of these.
Expr RandomNode(const std::vector<Expr>& full, Expr row, Expr scalar, std::mt19937* random) {
  const Expr a = (*random)() % 3 == 0 ? full[(*random)() % full.size()] : full.back();
  const Expr b = full[(*random)() % full.size()];
  switch ((*random)() % 12) {
    case 0:
      return a + b;
    case 1:
      return a * row;
    case 2:
      return row - a;
    case 3:
      return scalar * a;
    case 4:
      return Maximum(a, scalar);
    case 5:
      return Select(Greater(a, row), b, scalar);
    case 6:
      return Relu(a);
    case 7:
      return Clip(a, -0.5, 0.75);
    case 8:
      return ClipGrad(a, b, -0.5, 0.75);
    case 9:
      return Tanh(a);
    case 10:
      return Cast(Cast(a, DType::kFloat64), a.dtype()) + row;
    default:
      return ReluGrad(a, b);
  }
}

// The outputs of a random program; if `shown`, all its values are outputs, so nothing is fused.
std::vector<Tensor> RunRandom(uint32_t seed, DType dtype, int64_t rows, int64_t columns,
                              int threads, bool shown, size_t* fused) {
  std::mt19937 random(seed);
  ProgramBuilder builder("test");
  const int batch = builder.AddSymbol("batch", rows + 3);
  const Expr x = builder.Input("x", {dtype, {{rows + 3, batch}, {columns}}});
  const Expr row = builder.Input("row", {dtype, {{columns}}});
  const Expr scalar = builder.Input("scalar", {dtype, {}});
  std::vector<Expr> full = {x};
  const size_t nodes = 3 + random() % 20;
  for (size_t i = 0; i < nodes; ++i) full.push_back(RandomNode(full, row, scalar, &random));
  builder.AddOutput("last", full.back());
  for (size_t i = 1; shown && i + 1 < full.size(); ++i) {
    builder.AddOutput(std::to_string(i), full[i]);
  }
  auto program = std::move(builder).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  auto executable = Executable::Compile(*std::move(program), {.intra_op_threads = threads});
  REQUIRE(executable.ok());
  *fused = CountFused((*executable)->program());
  const std::vector<Tensor> batch_values = {RandomTensor(dtype, {rows, columns}, &random),
                                            RandomTensor(dtype, {columns}, &random),
                                            RandomTensor(dtype, {}, &random)};
  REQUIRE((*executable)->Bind(batch_values).ok());
  REQUIRE((*executable)->Prepare(RandomKey{}).ok());
  REQUIRE((*executable)->Run().ok());
  return {(*executable)->output(0)};
}

TEST_CASE("fused nodes compute the same bits as single ones") {
  const std::vector<std::pair<int64_t, int64_t>> shapes = {
      {5, 3}, {700, 7}, {3, 5000}, {0, 4}, {9, 1}};
  size_t with_fusion = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const auto [rows, columns] = shapes[seed % shapes.size()];
    const DType dtype = seed % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
    INFO("seed " << seed);
    size_t fused = 0, apart = 0;
    const auto a =
        RunRandom(seed, dtype, rows, columns, 1 + static_cast<int>(seed % 3), false, &fused);
    const auto b = RunRandom(seed, dtype, rows, columns, 1, true, &apart);
    if (fused > apart) ++with_fusion;  // the last value alone may be short
    REQUIRE(a[0].num_bytes() == b[0].num_bytes());
    CHECK(std::memcmp(a[0].raw(), b[0].raw(), a[0].num_bytes()) == 0);
  }
  CHECK(with_fusion > 10);
}

TEST_CASE("a value that is used twice, or outside, is not fused away") {
  ProgramBuilder builder("test");
  const Expr x = builder.Input("x", {DType::kFloat32, {{4}, {2}}});
  const Expr once = x * 2.0;
  const Expr twice = once + 1.0;
  const Expr shown = Relu(twice);
  builder.AddOutput("shown", shown);
  builder.AddOutput("more", Exp(shown) - twice);
  auto program = std::move(builder).Build();
  REQUIRE(program.ok());
  const Program fused = FuseElementwise(*program);
  // once and twice; exp and -.
  CHECK(CountFused(fused) == 2);
  for (const Node& node : fused.nodes) {
    if (node.op == "fused") CHECK(node.body.size() == 2);
  }
}

}  // namespace
}  // namespace cohort
