#include "common/placement/initializers.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "common/tensor/philox.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::InitializerSpec Spec(const std::string& name, uint64_t seed = 7) {
  v1::InitializerSpec spec;
  spec.set_class_name(name);
  spec.set_seed(seed);
  spec.set_minval(-0.05);
  spec.set_maxval(0.05);
  spec.set_stddev(0.05);
  spec.set_value(2.5);
  spec.set_fan_in(784);
  spec.set_fan_out(128);
  return spec;
}

template <typename T>
std::vector<T> Fill(const v1::InitializerSpec& spec, const std::string& name, uint64_t begin,
                    uint64_t end) {
  auto init = Initializer::Create(spec, name);
  REQUIRE(init.ok());
  std::vector<T> values(end - begin);
  init->Fill(DTypeOf<T>(), begin, end, values.data());
  return values;
}

TEST_CASE("any range has the values of the whole") {
  for (const char* name : {"GlorotUniform", "RandomUniform", "RandomNormal", "TruncatedNormal",
                           "Identity", "Constant"}) {
    const auto whole = Fill<double>(Spec(name), "w", 0, 101);
    for (const auto& [begin, end] :
         {std::pair<uint64_t, uint64_t>{0, 1}, {1, 2}, {3, 50}, {50, 101}}) {
      const auto part = Fill<double>(Spec(name), "w", begin, end);
      REQUIRE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<long>(begin)));
    }
    const auto floats = Fill<float>(Spec(name), "w", 0, 101);
    for (size_t i = 0; i < 101; ++i) REQUIRE(floats[i] == static_cast<float>(whole[i]));
  }
}

TEST_CASE("elements beyond 2^32 and at the end of uint64 have values of their own") {
  const auto low = Fill<double>(Spec("RandomUniform"), "w", 0, 4);
  const auto high =
      Fill<double>(Spec("RandomUniform"), "w", uint64_t{1} << 33, (uint64_t{1} << 33) + 4);
  REQUIRE(low != high);
  const auto wrapped = Fill<double>(Spec("RandomUniform"), "w", ~uint64_t{0}, 3);
  REQUIRE(std::equal(wrapped.begin() + 1, wrapped.end(), low.begin()));
}

TEST_CASE("values differ by seed and by name") {
  const auto base = Fill<double>(Spec("RandomUniform"), "w", 0, 8);
  REQUIRE(base == Fill<double>(Spec("RandomUniform"), "w", 0, 8));
  REQUIRE(base != Fill<double>(Spec("RandomUniform", 8), "w", 0, 8));
  REQUIRE(base != Fill<double>(Spec("RandomUniform"), "v", 0, 8));
}

TEST_CASE("distributions are Keras'") {
  constexpr size_t kCount = 40000;
  const auto moments = [](const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (double v : values) {
      sum += v;
      squares += v * v;
    }
    return std::pair{sum / kCount, std::sqrt(squares / kCount)};
  };
  const auto glorot = Fill<double>(Spec("GlorotUniform"), "w", 0, kCount);
  const double limit = std::sqrt(6.0 / (784 + 128));
  REQUIRE(*std::ranges::max_element(glorot) < limit);
  REQUIRE(*std::ranges::min_element(glorot) >= -limit);
  REQUIRE(std::abs(moments(glorot).first) < 0.02 * limit);
  REQUIRE(std::abs(moments(glorot).second - limit / std::sqrt(3)) < 0.02 * limit);

  const auto normal = Fill<double>(Spec("RandomNormal"), "w", 0, kCount);
  REQUIRE(std::abs(moments(normal).first) < 0.001);
  REQUIRE(std::abs(moments(normal).second - 0.05) < 0.001);
  const auto within = std::ranges::count_if(normal, [](double v) { return std::abs(v) < 0.05; });
  REQUIRE(std::abs(static_cast<double>(within) / kCount - 0.6827) < 0.01);

  // Between -2 and 2 standard deviations the variance is 0.7737 of the whole.
  const auto truncated = Fill<double>(Spec("TruncatedNormal"), "w", 0, kCount);
  REQUIRE(*std::ranges::max_element(truncated) <= 0.1);
  REQUIRE(*std::ranges::max_element(truncated) > 0.099);
  REQUIRE(*std::ranges::min_element(truncated) >= -0.1);
  REQUIRE(std::abs(moments(truncated).first) < 0.001);
  REQUIRE(std::abs(moments(truncated).second - 0.05 * 0.87962566) < 0.0005);

  REQUIRE(Fill<float>(Spec("Zeros"), "w", 0, 2) == std::vector<float>{0, 0});
  REQUIRE(Fill<int64_t>(Spec("Ones"), "w", 0, 2) == std::vector<int64_t>{1, 1});
  REQUIRE(Fill<float>(Spec("Constant"), "w", 0, 2) == std::vector<float>{2.5f, 2.5f});
}

TEST_CASE("the identity has its gain on the diagonal") {
  v1::InitializerSpec spec = Spec("Identity");
  spec.set_fan_in(2);
  spec.set_fan_out(3);
  REQUIRE(Fill<float>(spec, "w", 0, 6) == std::vector<float>{2.5, 0, 0, 0, 2.5, 0});
}

TEST_CASE("ones within a range, and the value elsewhere") {
  v1::InitializerSpec spec = Spec("OnesWithin");
  spec.set_fan_in(2);
  spec.set_fan_out(4);
  REQUIRE(Fill<float>(spec, "w", 0, 6) == std::vector<float>{2.5, 2.5, 1, 1, 2.5, 2.5});
  REQUIRE(Fill<double>(spec, "w", 3, 5) == std::vector<double>{1, 2.5});
}

TEST_CASE("an orthogonal matrix is orthogonal, and each part of it is that of the whole") {
  for (const auto& [rows, columns] :
       std::vector<std::pair<uint64_t, uint64_t>>{{1, 1}, {7, 3}, {5, 40}, {130, 130}}) {
    v1::InitializerSpec spec = Spec("Orthogonal");
    spec.set_fan_in(rows);
    spec.set_fan_out(columns);
    spec.set_value(2);
    const auto w = Fill<double>(spec, "w", 0, rows * columns);
    const uint64_t count = std::min(rows, columns), length = std::max(rows, columns);
    const uint64_t step = rows < columns ? 1 : columns, next = rows < columns ? columns : 1;
    for (uint64_t i = 0; i < count; ++i) {
      for (uint64_t j = 0; j < count; ++j) {
        double product = 0;
        for (uint64_t k = 0; k < length; ++k) {
          product += w[i * next + k * step] * w[j * next + k * step];
        }
        REQUIRE(std::abs(product / 4 - (i == j ? 1 : 0)) < 1e-6);
      }
    }
    const uint64_t from = rows * columns / 3;
    const auto part = Fill<double>(spec, "w", from, rows * columns);
    REQUIRE(std::equal(part.begin(), part.end(), w.begin() + static_cast<long>(from)));
    REQUIRE((rows * columns == 1 || w != Fill<double>(spec, "v", 0, rows * columns)));
  }
}

// The bytes are a contract: a restarted server must make the same variable.
TEST_CASE("the published formula") {
  const auto values = Fill<double>(Spec("RandomUniform", 3), "ab", 4, 6);
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint8_t c : {'a', 'b'}) hash = (hash ^ c) * 0x100000001b3;
  const PhiloxBlock block = Philox(2, 0, PhiloxMix(3, hash));
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t bits = block[2 * i] | static_cast<uint64_t>(block[2 * i + 1]) << 32;
    REQUIRE(values[i] == -0.05 + 0.1 * UniformFromBits(bits));
  }
}

TEST_CASE("a wrong specification is refused by name") {
  REQUIRE(Initializer::Create(Spec("Stft"), "dense/kernel").status().message() ==
          "variable \"dense/kernel\": initializer \"Stft\" is not one of GlorotUniform, "
          "RandomUniform, RandomNormal, TruncatedNormal, Zeros, Ones, Constant, Identity, "
          "OnesWithin, Orthogonal");
  v1::InitializerSpec large = Spec("Orthogonal");
  large.set_fan_in(uint64_t{1} << 40);
  REQUIRE(Initializer::Create(large, "w").status().code() == absl::StatusCode::kInvalidArgument);
  v1::InitializerSpec spec = Spec("RandomUniform");
  spec.set_maxval(-1);
  REQUIRE(Initializer::Create(spec, "w").status().code() == absl::StatusCode::kInvalidArgument);
  spec = Spec("RandomNormal");
  spec.set_stddev(-1);
  REQUIRE(Initializer::Create(spec, "w").status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cohort
