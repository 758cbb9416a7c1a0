// A convolution that is fused with its bias, relu and max_pool computes what these nodes compute
// one by one.
#include "common/graph/fuse_pooling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <random>

#include "common/exec/executable.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/kernels/patch_convolution.h"

namespace cohort {
namespace {

struct ConvPoolCase {
  int64_t rows, columns, channels, filters;
  std::vector<int64_t> taps, strides, pads;  // conv2d
  std::vector<int64_t> window, steps;        // max_pool
  std::string padding = "valid";
  bool fused = true;
};

std::vector<ConvPoolCase> ConvPoolCases() {
  return {
      {28, 28, 1, 32, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, {2, 2}},
      {13, 11, 3, 48, {3, 3}, {1, 1}, {1, 1, 1, 1}, {2, 2}, {2, 2}},
      {12, 15, 2, 16, {2, 5}, {1, 2}, {0, 1, 2, 2}, {3, 2}, {4, 3}},
      {8, 10, 1, 64, {1, 1}, {1, 1}, {0, 0, 0, 0}, {4, 5}, {4, 5}, "same"},
      // Windows that overlap or are not complete, too large patches, filters that do not fill
      // vectors.
      {9, 9, 1, 16, {3, 3}, {1, 1}, {0, 0, 0, 0}, {3, 3}, {2, 2}, "valid", false},
      {9, 9, 1, 16, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, {2, 2}, "same", false},
      {6, 6, 8, 16, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, {2, 2}, "valid", false},
      {6, 6, 1, 20, {3, 3}, {1, 1}, {0, 0, 0, 0}, {2, 2}, {2, 2}, "valid", false},
  };
}

constexpr int64_t kConvPoolCapacity = 21;

struct TracedConvPool {
  Program program;
  std::vector<Dims> variables;
};

// The loss is a sum of squares of the pooled values. `train`: pushes gradients. `shown`: what is
// between is an output, so nothing is fused.
TracedConvPool TraceConvPool(const ConvPoolCase& c, bool train, bool shown) {
  ProgramBuilder b("test");
  const int batch = b.AddSymbol("batch", kConvPoolCapacity);
  const DType dtype = DType::kFloat32;
  const Expr x =
      b.Input("x", {dtype, {{kConvPoolCapacity, batch}, {c.rows}, {c.columns}, {c.channels}}});
  const Expr kernel =
      b.Read("kernel", {dtype, {{c.taps[0]}, {c.taps[1]}, {c.channels}, {c.filters}}});
  const Expr bias = b.Read("bias", {dtype, {{c.filters}}});
  const Expr sums = b.Op("conv2d", {x, kernel},
                         {{"strides", c.strides},
                          {"dilations", std::vector<int64_t>{1, 1}},
                          {"pads", c.pads},
                          {"groups", int64_t{1}}}) +
                    bias;
  const Expr activations = Relu(sums);
  const Expr pooled = MaxPool(activations, c.window, c.steps, c.padding);
  if (train) {
    b.SetLoss(DimSize(x, 0, dtype));
    REQUIRE(PushGradients(&b, ReduceSum(Square(pooled))).ok());
  }
  b.AddOutput("pooled", pooled);
  if (shown) b.AddOutput("sums", sums);
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return {*std::move(program), {{c.taps[0], c.taps[1], c.channels, c.filters}, {c.filters}}};
}

int64_t CountConvPools(const Program& program) {
  return std::ranges::count_if(program.nodes,
                               [](const Node& node) { return node.op.starts_with(kConvReluPool); });
}

Tensor RandomQuarters(Dims dims, std::mt19937* random) {
  Tensor t = Tensor::Zeros(DType::kFloat32, dims);
  std::uniform_real_distribution<float> draw(-1, 1);
  // Few different values, so that windows have several maxima.
  for (float& v : t.mutable_values<float>()) v = std::round(draw(*random) * 4) / 4;
  return t;
}

// What a step gives: the pooled values, and what it pushes.
struct ConvPoolResults {
  int64_t fused = 0;
  std::vector<std::vector<float>> values;
};

ConvPoolResults RunConvPool(const ConvPoolCase& c, bool train, bool shown, int64_t images,
                            int threads, float first) {
  TracedConvPool traced = TraceConvPool(c, train, shown);
  auto executable = Executable::Compile(std::move(traced.program), {.intra_op_threads = threads});
  INFO(executable.status());
  REQUIRE(executable.ok());
  Executable& e = **executable;
  std::mt19937 random(7);
  Tensor x = RandomQuarters({images, c.rows, c.columns, c.channels}, &random);
  if (images > 0) x.mutable_values<float>()[0] = first;
  const std::vector<Tensor> batch = {x};
  REQUIRE(e.Bind(batch).ok());
  REQUIRE(e.Prepare(RandomKey{}).ok());
  std::vector<Tensor> variables;
  for (const Dims& dims : traced.variables) variables.push_back(RandomQuarters(dims, &random));
  for (const PullItem& pull : e.pulls()) {
    const Tensor& value = variables[static_cast<size_t>(pull.variable)];
    std::memcpy(pull.destination, value.raw(), value.num_bytes());
  }
  REQUIRE(e.Run().ok());
  ConvPoolResults results{.fused = CountConvPools(e.program()), .values = {}};
  const Tensor pooled = e.output(0);
  results.values.emplace_back(pooled.values<float>().begin(), pooled.values<float>().end());
  for (const PushItem& push : e.pushes()) {
    const auto* value = static_cast<const float*>(push.value);
    const int64_t n = variables[static_cast<size_t>(push.variable)].num_elements();
    results.values.emplace_back(value, value + n);
  }
  return results;
}

bool SameConvPoolBits(const ConvPoolResults& a, const ConvPoolResults& b) {
  return std::ranges::equal(a.values, b.values, [](const auto& x, const auto& y) {
    const size_t bytes = x.size() * sizeof(float);
    return x.size() == y.size() && (bytes == 0 || std::memcmp(x.data(), y.data(), bytes) == 0);
  });
}

TEST_CASE("a fused convolution computes the same bits as its nodes") {
  const bool train = GENERATE(true, false);
  for (const ConvPoolCase& c : ConvPoolCases()) {
    INFO(c.rows << " x " << c.columns << " x " << c.channels << ", " << c.filters << " filters");
    for (const int64_t images : {kConvPoolCapacity, int64_t{5}, int64_t{0}}) {
      const ConvPoolResults apart = RunConvPool(c, train, true, images, 1, 0);
      CHECK(apart.fused == 0);
      CHECK(apart.values.size() == (train ? 3 : 1));
      for (const int threads : {1, 2, 3}) {
        const ConvPoolResults fused = RunConvPool(c, train, false, images, threads, 0);
        CHECK(fused.fused == (!c.fused ? 0 : train ? 2 : 1));
        CHECK(SameConvPoolBits(fused, apart));
      }
    }
  }
}

TEST_CASE("a fused convolution does not hide a NaN") {
  for (const ConvPoolCase& c : ConvPoolCases()) {
    const ConvPoolResults results =
        RunConvPool(c, true, false, 3, 1, std::numeric_limits<float>::quiet_NaN());
    CHECK(std::ranges::any_of(results.values[0], [](float v) { return std::isnan(v); }));
  }
}

TEST_CASE("values that are used elsewhere are not fused away") {
  TracedConvPool traced = TraceConvPool(ConvPoolCases()[0], true, false);
  CHECK(CountConvPools(FusePooledConvolutions(traced.program, HasSmallPatches)) == 2);
  const auto suits = [](const ops::ConvShape&) { return false; };
  CHECK(CountConvPools(FusePooledConvolutions(traced.program, suits)) == 0);
  for (const std::string_view op : {"conv2d", "add", "relu", "max_pool_grad", "relu_grad"}) {
    INFO(op);
    Program program = traced.program;
    const auto node = std::ranges::find(program.nodes, op, &Node::op);
    REQUIRE(node != program.nodes.end());
    program.outputs.push_back({"shown", node->outputs[0]});
    CHECK(CountConvPools(FusePooledConvolutions(std::move(program), HasSmallPatches)) == 0);
  }
}

}  // namespace
}  // namespace cohort
