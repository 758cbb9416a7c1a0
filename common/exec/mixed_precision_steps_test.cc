// Whole steps in mixed precision beside those in float32: their gradients, the loss scale, and what
// is not finite.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/exec/executable.h"
#include "common/exec/finite_pushes.h"
#include "common/exec/step_test_util.h"
#include "common/exec/test_device.h"
#include "common/graph/expr.h"
#include "common/graph/mixed_precision.h"

namespace cohort {
namespace {

constexpr int64_t kBatch = 16;

// A convolution, a matrix product and a softmax; pushes the gradients of both kernels. The loss is
// `factor` times the cross entropy.
Program ImageProgram(Precision precision, const LossScaling& scaling, double factor = 1) {
  ProgramBuilder b("images");
  const int batch = b.AddSymbol("batch", kBatch);
  const Expr x = b.Input("x", {DType::kFloat32, {{kBatch, batch}, {6}, {6}, {2}}});
  const Expr labels = b.Input("labels", {DType::kInt64, {{kBatch, batch}}});
  const Expr kernel = b.Read("conv/kernel", {DType::kFloat32, {{3}, {3}, {2}, {4}}});
  const Expr dense = b.Read("dense/kernel", {DType::kFloat32, {{64}, {10}}});
  const Expr hidden = Tanh(Conv2D(x, kernel, {}));  // smooth: rounding has small effects only
  const Expr logits = MatMul(Reshape(hidden, {-1, 64}), dense);
  const Expr loss = factor * ReduceSum(SparseSoftmaxCrossEntropy(labels, logits));
  b.SetLoss(DimSize(logits, 0));
  REQUIRE(
      (scaling.enabled() ? PushScaledGradients(&b, loss, scaling) : PushGradients(&b, loss)).ok());
  b.AddOutput("logits", logits);
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return WithPrecision(*std::move(program), precision, {""});
}

struct MixedStep {
  std::vector<double> gradients;
  std::vector<double> logits;
  bool finite = false;
};

MixedStep RunMixedStep(Program program, float scale = 0) {
  const bool is_scaled = program.loss_scaling.enabled();
  auto e = Executable::Compile(std::move(program), testing::OnTestDevice());
  INFO(e.status());
  REQUIRE(e.ok());
  std::vector<Tensor> batch = testing::MlpBatch<float>(kBatch, 72, 1);
  std::mt19937 random(1);
  batch[0] = Tensor(DType::kFloat32, {kBatch, 6, 6, 2});
  for (float& v : batch[0].mutable_values<float>()) {
    v = static_cast<float>(random() % 2000) / 1000 - 1;
  }
  if (is_scaled) batch.push_back(Tensor::Scalar(scale));
  REQUIRE((*e)->Bind(batch).ok());
  REQUIRE((*e)->Prepare({1, 2, 3}).ok());
  testing::FillPulls<float>(e->get());
  REQUIRE((*e)->Run().ok());
  MixedStep result;
  for (const PushItem& push : (*e)->pushes()) {
    const ValueType& type = (*e)->program().variables[static_cast<size_t>(push.variable)].type;
    const auto* const values = static_cast<const float*>(push.value);
    result.gradients.insert(result.gradients.end(), values, values + CapacityElements(type));
  }
  const Tensor logits = (*e)->output(0);
  result.logits.assign(logits.values<float>().begin(), logits.values<float>().end());
  result.finite = PushesAreFinite((*e)->program(), (*e)->pushes());
  return result;
}

// ||a - b|| / ||b||
double DifferenceOf(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

constexpr LossScaling kScaling{.initial = 1024, .growth_steps = 10};

TEST_CASE("a step in mixed precision differs from float32 by the type's rounding") {
  const MixedStep exact = RunMixedStep(ImageProgram(Precision::kFloat32, {}));
  const MixedStep bfloat16 = RunMixedStep(ImageProgram(Precision::kBfloat16, {}));
  const MixedStep float16 = RunMixedStep(ImageProgram(Precision::kFloat16, kScaling), 1024);
  // The relative errors of one rounding.
  constexpr double kBfloat16Epsilon = 0x1p-8, kFloat16Epsilon = 0x1p-11;
  for (const auto& [mixed, epsilon] :
       {std::pair(&bfloat16, kBfloat16Epsilon), std::pair(&float16, kFloat16Epsilon)}) {
    CHECK(DifferenceOf(mixed->logits, exact.logits) < 2 * epsilon);
    CHECK(DifferenceOf(mixed->gradients, exact.gradients) < 2 * epsilon);
    CHECK(DifferenceOf(mixed->gradients, exact.gradients) > epsilon / 100);  // it does round
    CHECK(mixed->finite);
  }
}

TEST_CASE("a loss scale that is a power of two changes no bit in bfloat16") {
  const MixedStep plain = RunMixedStep(ImageProgram(Precision::kBfloat16, {}));
  const MixedStep scaled = RunMixedStep(ImageProgram(Precision::kBfloat16, kScaling), 0x1p20f);
  CHECK(scaled.gradients == plain.gradients);
}

TEST_CASE("a loss scale keeps small gradients in float16") {
  constexpr double kSmall = 1e-7;  // gradients of this size are subnormal in float16, or vanish
  const MixedStep exact = RunMixedStep(ImageProgram(Precision::kFloat32, {}, kSmall));
  const MixedStep lost = RunMixedStep(ImageProgram(Precision::kFloat16, {}, kSmall));
  const MixedStep kept = RunMixedStep(ImageProgram(Precision::kFloat16, kScaling, kSmall), 0x1p20f);
  CHECK(DifferenceOf(lost.gradients, exact.gradients) > 0.1);
  CHECK(DifferenceOf(kept.gradients, exact.gradients) < 0x1p-10);
}

TEST_CASE("a loss scale that is too large makes gradients infinite, but not the forward pass") {
  const MixedStep exact = RunMixedStep(ImageProgram(Precision::kFloat16, {}));
  const MixedStep step = RunMixedStep(ImageProgram(Precision::kFloat16, kScaling), 0x1p24f);
  CHECK(!step.finite);
  CHECK(step.logits == exact.logits);
}

TEST_CASE("pushes are finite if no element is NaN or infinite") {
  Program program;
  program.variables = {{"w", {DType::kFloat32, {{3}}}}, {"rows", {DType::kFloat64, {{9}, {2}}}}};
  std::vector<float> w = {1, -2, std::numeric_limits<float>::max()};
  std::vector<double> rows = {0, 1e-310, -1e300, 4, 5, 6};
  const std::vector<int64_t> keys = {4, 8};
  std::vector<PushItem> pushes(3);
  pushes[0] = {.variable = 0, .value = w.data()};
  pushes[1] = {.variable = 1, .sparse = true, .keys = keys, .value = rows.data()};
  pushes[2] = {.variable = 0, .kind = PushKind::kRecordOnly};
  CHECK(PushesAreFinite(program, pushes));
  for (const float value : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (float& element : w) {
      const float before = std::exchange(element, value);
      CHECK(!PushesAreFinite(program, pushes));
      element = before;
    }
  }
  rows[3] = std::nan("");
  CHECK(!PushesAreFinite(program, pushes));
  rows[3] = 4;
  rows[5] = std::nan("");  // after the two rows
  CHECK(PushesAreFinite(program, pushes));
}

}  // namespace
}  // namespace cohort
