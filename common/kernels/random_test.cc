// dropout and random_normal.
#include <bit>
#include <cmath>
#include <numbers>

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

template <typename T>
Tensor RunNormal(int64_t n, RandomKey key, int64_t number, int threads = 1) {
  const Tensor x = RandomTensor<T>({n}, 0, 1, 1);
  testing::OpResult result =
      RunOp({"random_normal", {x}, {{"seed", int64_t{5}}, {"number", number}}, threads, key});
  REQUIRE(result.status.ok());
  return result.outputs[0];
}

TEST_CASE("normal numbers are Box and Muller's of Philox, and rounded ones in float32") {
  const Tensor y = RunNormal<double>(1003, {11, (uint64_t{1} << 40) + 12, 13}, 6);
  const Tensor rounded = RunNormal<float>(1003, {11, (uint64_t{1} << 40) + 12, 13}, 6, 3);
  const PhiloxKey key = PhiloxKeyOf(PhiloxMix(PhiloxMix(11, 5), 6));
  for (uint32_t i = 0; i < 1003; ++i) {
    const PhiloxBlock block = Philox({i / 4, 13, 12, 1 << 8}, key);
    const double u = (block[i / 2 % 2 * 2] + 0.5) * 0x1p-32;
    const double angle = block[i / 2 % 2 * 2 + 1] * 0x1p-32 * 2 * std::numbers::pi;
    const double expected =
        std::sqrt(-2 * std::log(u)) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    REQUIRE(std::abs(y.values<double>()[i] - expected) < 1e-14);
    REQUIRE(rounded.values<float>()[i] == static_cast<float>(y.values<double>()[i]));
  }
}

// The bits are a contract: every machine draws the same.
TEST_CASE("the bits of normal numbers") {
  const Tensor y = RunNormal<float>(100000, {1, 2, 3}, 4);
  uint64_t hash = 0xcbf29ce484222325;
  for (const float v : y.values<float>()) {
    hash = (hash ^ std::bit_cast<uint32_t>(v)) * 0x100000001b3;
  }
  CHECK(hash == 0x191fb198d392148c);
  double sum = 0, squares = 0, fourth = 0, beyond = 0;
  for (const float v : y.values<float>()) {
    sum += v;
    squares += v * v;
    fourth += v * v * v * v;
    beyond += std::abs(v) > 1.959964f;
  }
  // Five standard deviations of each.
  REQUIRE(std::abs(sum / 1e5) < 5 * std::sqrt(1 / 1e5));
  REQUIRE(std::abs(squares / 1e5 - 1) < 5 * std::sqrt(2 / 1e5));
  REQUIRE(std::abs(fourth / 1e5 - 3) < 5 * std::sqrt(96 / 1e5));
  REQUIRE(std::abs(beyond / 1e5 - 0.05) < 5 * std::sqrt(0.05 * 0.95 / 1e5));
}

TEST_CASE("normal numbers differ by place, ordinal, op and seed") {
  const auto values = [](RandomKey key, int64_t number) {
    const Tensor y = RunNormal<float>(64, key, number);
    return std::vector<float>(y.values<float>().begin(), y.values<float>().end());
  };
  const auto base = values({1, 2, 3}, 0);
  REQUIRE(base != values({9, 2, 3}, 0));
  REQUIRE(base != values({1, 9, 3}, 0));
  REQUIRE(base != values({1, 2, 9}, 0));
  REQUIRE(base != values({1, 2, 3}, 9));
}

}  // namespace
}  // namespace cohort
