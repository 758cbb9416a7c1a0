// The vector loops against <cmath> in float64, over the whole range of float.
#include "common/kernels/float_math.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace cohort {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Distance in units of the last place of the exact result.
double Ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (got == rounded) return 0;
  if (!std::isfinite(rounded) || !std::isfinite(got)) return 1e9;
  const double ulp = std::max<double>(
      std::abs(static_cast<double>(std::nextafter(rounded, kInf)) - static_cast<double>(rounded)),
      std::numeric_limits<float>::denorm_min());
  return std::abs(static_cast<double>(got) - exact) / ulp;
}

// Floats spread over all exponents of [low, high], of both signs if the range has them.
std::vector<float> Spread(float low, float high) {
  std::vector<float> xs;
  for (uint32_t bits = 0; bits < 0x7f800000; bits += 7919 * 13) {
    const float x = std::bit_cast<float>(bits);
    if (x >= low && x <= high) xs.push_back(x);
    if (-x >= low && -x <= high) xs.push_back(-x);
  }
  return xs;
}

void CheckAgainst(void (*loop)(const float*, float*, int64_t), double (*exact)(double), float low,
                  float high, double max_ulps) {
  const std::vector<float> xs = Spread(low, high);
  std::vector<float> ys(xs.size());
  loop(xs.data(), ys.data(), static_cast<int64_t>(xs.size()));
  double worst = 0;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double ulps = Ulps(ys[i], exact(xs[i]));
    if (ulps > worst) worst = ulps;
    if (ulps > max_ulps) FAIL("f(" << xs[i] << ") = " << ys[i] << ", not " << exact(xs[i]));
  }
  REQUIRE(worst <= max_ulps);
}

TEST_CASE("exp, log, tanh, erf, softplus and sigmoid are good to a few units of the last place") {
  CheckAgainst(ExpFloat, std::exp, -87, 88.7f, 4);
  CheckAgainst(LogFloat, std::log, 1.2e-38f, 3e38f, 4);
  CheckAgainst(TanhFloat, std::tanh, -3e38f, 3e38f, 6);
  CheckAgainst(ErfFloat, std::erf, -3e38f, 3e38f, 4);
  CheckAgainst(
      SoftplusFloat, [](double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))); },
      -87, 3e38f, 6);
  CheckAgainst(
      SigmoidFloat, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, 3e38f, 6);
}

TEST_CASE("the ends of the ranges are those of <cmath>") {
  const float xs[] = {kInf, -kInf, 1000, -1000, 0.0f, -1.0f, std::nanf(""), 89.5f};
  float y[8];
  ExpFloat(xs, y, 8);
  REQUIRE(y[0] == kInf);
  REQUIRE(y[1] == 0);
  REQUIRE(y[2] == kInf);
  REQUIRE(y[3] == 0);
  REQUIRE(y[4] == 1);
  REQUIRE(std::isnan(y[6]));
  REQUIRE(y[7] == kInf);
  LogFloat(xs, y, 8);
  REQUIRE(y[0] == kInf);
  REQUIRE(std::isnan(y[1]));
  REQUIRE(y[4] == -kInf);
  REQUIRE(std::isnan(y[5]));
  REQUIRE(std::isnan(y[6]));
  SigmoidFloat(xs, y, 8);
  REQUIRE(y[0] == 1);
  REQUIRE(y[1] == 0);
  REQUIRE(y[3] == 0);
  for (const auto loop : {TanhFloat, ErfFloat}) {
    loop(xs, y, 8);
    REQUIRE(y[0] == 1);
    REQUIRE(y[1] == -1);
    REQUIRE(std::isnan(y[6]));
  }
  SoftplusFloat(xs, y, 8);
  REQUIRE(y[0] == kInf);
  REQUIRE(y[1] == 0);
  REQUIRE(y[2] == 1000);
  REQUIRE(y[3] == 0);
  REQUIRE(std::isnan(y[6]));
}

TEST_CASE("an element's result does not depend on where it lies") {
  std::vector<float> xs = Spread(-20, 20);
  xs.resize(301);
  for (auto loop : {ExpFloat, TanhFloat, SigmoidFloat, ErfFloat, SoftplusFloat}) {
    std::vector<float> whole(xs.size()), single(xs.size());
    loop(xs.data(), whole.data(), static_cast<int64_t>(xs.size()));
    for (size_t i = 0; i < xs.size(); ++i) loop(&xs[i], &single[i], 1);
    REQUIRE(whole == single);
  }
}

TEST_CASE("vector Philox is Philox") {
  const PhiloxBlock counter = {0xfffffff0, 7, 8, 9};
  const PhiloxKey key = {10, 11};
  std::vector<uint32_t> words(4 * 100);
  PhiloxWords(counter, key, 100, words.data());
  for (uint32_t i = 0; i < 100; ++i) {
    const PhiloxBlock expected = Philox({counter[0] + i, 7, 8, 9}, key);
    for (size_t j = 0; j < 4; ++j) REQUIRE(words[4 * i + j] == expected[j]);
  }
}

}  // namespace
}  // namespace cohort
