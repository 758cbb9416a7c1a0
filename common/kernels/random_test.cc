// dropout.
#include "common/kernels/kernel_test_util.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

using testing::RandomTensor;
using testing::RunOp;

template <typename T>
testing::OpResult RunDropout(const Tensor& x, double rate, RandomKey key, int64_t number,
                             int threads = 1) {
  testing::OpRun run{
      "dropout", {x}, {{"rate", rate}, {"seed", int64_t{5}}, {"number", number}}, threads, key};
  testing::OpResult result = RunOp(run);
  REQUIRE(result.status.ok());
  return result;
}

std::vector<bool> Kept(const testing::OpResult& result) {
  std::vector<bool> kept;
  for (float m : result.outputs[1].values<float>()) kept.push_back(m != 0);
  return kept;
}

TEMPLATE_TEST_CASE("dropout multiplies by its mask", "", float, double) {
  const Tensor x = RandomTensor<TestType>({100, 77}, -1, 1, 1);
  const auto result = RunDropout<TestType>(x, 0.2, {1, 2, 3}, 0);
  int64_t kept = 0;
  for (size_t i = 0; i < 7700; ++i) {
    const TestType mask = result.outputs[1].template values<TestType>()[i];
    REQUIRE((mask == 0 || mask == static_cast<TestType>(1 / 0.8)));
    REQUIRE(result.outputs[0].template values<TestType>()[i] == x.values<TestType>()[i] * mask);
    kept += mask != 0;
  }
  // Five standard deviations.
  REQUIRE(std::abs(static_cast<double>(kept) / 7700 - 0.8) < 5 * std::sqrt(0.16 / 7700));
}

TEST_CASE("a mask is Philox's: word i % 4 of block i / 4") {
  const Tensor x = RandomTensor<float>({1003}, 1, 2, 1);
  const auto result = RunDropout<float>(x, 0.5, {11, (uint64_t{1} << 40) + 12, 13}, 6);
  const PhiloxKey key = PhiloxKeyOf(PhiloxMix(PhiloxMix(11, 5), 6));
  for (uint32_t i = 0; i < 1003; ++i) {
    const PhiloxBlock block = Philox({i / 4, 13, 12, 1 << 8}, key);
    REQUIRE((result.outputs[1].values<float>()[i] != 0) == (block[i % 4] >= 0x80000000u));
  }
}

TEST_CASE("masks differ by place, ordinal, op and seed, and by nothing else") {
  const Tensor x = RandomTensor<float>({64, 300}, 1, 2, 1);
  const std::vector<bool> base = Kept(RunDropout<float>(x, 0.5, {1, 2, 3}, 0));
  REQUIRE(base == Kept(RunDropout<float>(x, 0.5, {1, 2, 3}, 0, 3)));
  REQUIRE(base != Kept(RunDropout<float>(x, 0.5, {9, 2, 3}, 0)));
  REQUIRE(base != Kept(RunDropout<float>(x, 0.5, {1, 9, 3}, 0)));
  REQUIRE(base != Kept(RunDropout<float>(x, 0.5, {1, 2, 9}, 0)));
  REQUIRE(base != Kept(RunDropout<float>(x, 0.5, {1, 2, 3}, 9)));
}

TEST_CASE("a rate of 0 keeps everything") {
  const Tensor x = RandomTensor<float>({50}, 1, 2, 1);
  const auto result = RunDropout<float>(x, 0, {1, 2, 3}, 0);
  REQUIRE(std::ranges::equal(result.outputs[0].values<float>(), x.values<float>()));
}

}  // namespace
}  // namespace cohort
