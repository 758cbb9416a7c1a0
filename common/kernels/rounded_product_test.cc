// Products whose operands are rounded, against plain loops on rounded operands.
#include <limits>

#include "common/kernels/kernel_test_util.h"
#include "common/tensor/precision.h"

namespace cohort {
namespace {

using testing::Near;
using testing::Output;
using testing::RandomTensor;
using testing::RunOp;

Attrs With(Attrs attrs, Precision precision) {
  attrs["precision"] = std::string(PrecisionName(precision));
  return attrs;
}

double Rounded(const Tensor& t, int64_t i, Precision precision) {
  return static_cast<double>(RoundTo(precision, t.values<float>()[static_cast<size_t>(i)]));
}

TEST_CASE("matmul rounds its operands, and sums in float32") {
  const Precision precision = GENERATE(Precision::kBfloat16, Precision::kFloat16);
  constexpr int64_t kM = 33, kN = 17, kK = 300;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Tensor a = RandomTensor<float>(ta ? Dims{kK, kM} : Dims{kM, kK}, -1, 1, 1);
      const Tensor b = RandomTensor<float>(tb ? Dims{kN, kK} : Dims{kK, kN}, -1, 1, 2);
      const Attrs attrs = With({{"transpose_a", ta}, {"transpose_b", tb}}, precision);
      const Tensor y = Output({"matmul", {a, b}, attrs});
      const Tensor on_threads = Output({"matmul", {a, b}, attrs, 3});
      for (int64_t at = 0; at < kM * kN; ++at) {
        const int64_t i = at / kN, j = at % kN;
        double sum = 0;
        for (int64_t p = 0; p < kK; ++p) {
          sum += Rounded(a, ta ? p * kM + i : i * kK + p, precision) *
                 Rounded(b, tb ? j * kK + p : p * kN + j, precision);
        }
        REQUIRE(std::abs(y.values<float>()[static_cast<size_t>(at)] - sum) < 4e-5);
        REQUIRE(on_threads.values<float>()[static_cast<size_t>(at)] ==
                y.values<float>()[static_cast<size_t>(at)]);
      }
    }
  }
}

TEST_CASE("sums keep more bits than the operands have") {
  // 1 + 2^-9 is no bfloat16, and neither is the sum of 300 ones and a small number.
  const Tensor ones = Tensor::FromValues<float>({1, 300}, std::vector<float>(300, 1));
  std::vector<float> values(300, 1);
  values[0] = 0x1p-9f;
  const Tensor b = Tensor::FromValues<float>({300, 1}, values);
  const Tensor y = Output({"matmul", {ones, b}, With({}, Precision::kBfloat16)});
  CHECK(y.values<float>()[0] == 299 + 0x1p-9f);
  values[0] = 1 + 0x1p-9f;
  const Tensor c = Tensor::FromValues<float>({300, 1}, values);
  CHECK(Output({"matmul", {ones, c}, With({}, Precision::kBfloat16)}).values<float>()[0] == 300);
  CHECK(Output({"matmul", {ones, c}, With({}, Precision::kFloat16)}).values<float>()[0] ==
        300 + 0x1p-9f);
}

TEST_CASE("float16 operands out of range make infinite products, bfloat16 operands do not") {
  const Tensor big = Tensor::FromValues<float>({1, 1}, std::vector<float>{1e5f});
  const Tensor half = Tensor::FromValues<float>({1, 1}, std::vector<float>{0.5f});
  CHECK(Output({"matmul", {big, half}, With({}, Precision::kFloat16)}).values<float>()[0] ==
        std::numeric_limits<float>::infinity());
  CHECK(Near<float>(
      Output({"matmul", {big, half}, With({}, Precision::kBfloat16)}).values<float>()[0],
      RoundTo(Precision::kBfloat16, 1e5f) / 2));
}

// The float32 op on operands that the test has rounded.
void CheckAgainstRoundedInputs(const std::string& op, std::vector<Tensor> inputs,
                               const Attrs& attrs) {
  const Precision precision = GENERATE(Precision::kBfloat16, Precision::kFloat16);
  for (const int threads : {1, 3}) {
    const Tensor y = Output({op, inputs, With(attrs, precision), threads});
    std::vector<Tensor> rounded;
    for (const Tensor& input : inputs) {
      rounded.emplace_back(DType::kFloat32, input.dims());
      for (int64_t i = 0; i < input.num_elements(); ++i) {
        rounded.back().mutable_values<float>()[static_cast<size_t>(i)] =
            static_cast<float>(Rounded(input, i, precision));
      }
    }
    const Tensor expected = Output({op, rounded, attrs, threads});
    const Tensor exact = Output({op, inputs, attrs, threads});
    bool differs = false;
    for (size_t i = 0; i < static_cast<size_t>(y.num_elements()); ++i) {
      REQUIRE(y.values<float>()[i] == expected.values<float>()[i]);
      differs = differs || y.values<float>()[i] != exact.values<float>()[i];
    }
    CHECK(differs);
  }
}

TEST_CASE("batch_matmul rounds its operands") {
  CheckAgainstRoundedInputs(
      "batch_matmul",
      {RandomTensor<float>({4, 6, 9}, -1, 1, 1), RandomTensor<float>({4, 7, 9}, -1, 1, 2)},
      {{"transpose_a", false}, {"transpose_b", true}});
}

TEST_CASE("convolutions and their gradients round their operands") {
  const int64_t groups = GENERATE(1, 4);
  Attrs attrs = {{"strides", std::vector<int64_t>{1, 2}},
                 {"dilations", std::vector<int64_t>{1, 1}},
                 {"pads", std::vector<int64_t>{1, 1, 1, 1}},
                 {"groups", groups}};
  const Tensor x = RandomTensor<float>({5, 7, 8, 4}, -1, 1, 1);
  const Tensor kernel = RandomTensor<float>({3, 3, 4 / groups, 8}, -1, 1, 2);
  const Tensor grad = RandomTensor<float>({5, 7, 4, 8}, -1, 1, 3);
  CheckAgainstRoundedInputs("conv2d", {x, kernel}, attrs);
  attrs["size"] = std::vector<int64_t>{7, 8};
  CheckAgainstRoundedInputs("conv2d_input_grad", {grad, kernel}, attrs);
  attrs["size"] = std::vector<int64_t>{3, 3};
  CheckAgainstRoundedInputs("conv2d_kernel_grad", {x, grad}, attrs);
}

TEST_CASE("rounded products take fewer examples than their capacity, and none") {
  for (const int64_t examples : {0, 3}) {
    const Tensor a = RandomTensor<float>({examples, 5}, -1, 1, 1);
    const Tensor b = RandomTensor<float>({5, 2}, -1, 1, 2);
    testing::OpRun run{"matmul", {a, b}, With({}, Precision::kBfloat16)};
    run.batch_capacity = 8;
    CHECK(Output(run).dims() == Dims{examples, 2});
  }
}

}  // namespace
}  // namespace cohort
