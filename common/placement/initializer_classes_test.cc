#include "common/placement/initializer_classes.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "common/placement/initializers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::ClassConfig Given(const std::string& name,
                      const std::vector<std::pair<std::string, v1::ConfigValue>>& arguments = {}) {
  v1::ClassConfig config;
  config.set_class_name(name);
  for (const auto& [argument, value] : arguments) (*config.mutable_config())[argument] = value;
  return config;
}

std::string ProblemOf(const v1::ClassConfig& config) {
  const int64_t dims[] = {3, 4};
  return std::string(MakeInitializer(config, 1, dims).status().message());
}

TEST_CASE("every initializer makes values with its defaults") {
  const int64_t dims[] = {3, 4};
  for (const ClassSchema* schema : InitializerSchemas().Schemas()) {
    INFO(schema->name);
    const auto spec = MakeInitializer(Given(schema->name), 7, dims);
    REQUIRE(spec.ok());
    // The class itself, or the one that it is a special case of.
    CHECK(Initializers().Find(spec->class_name()).ok());
    CHECK(spec->seed() == 7);
    CHECK(Initializer::Create(*spec, "v").ok());
  }
}

TEST_CASE("names, seeds and fans are Keras'") {
  const int64_t dims[] = {2, 3, 5, 7};
  const auto glorot = MakeInitializer(Given("glorot_uniform"), 7, dims);
  REQUIRE(glorot.ok());
  CHECK(glorot->class_name() == "GlorotUniform");
  CHECK(glorot->fan_in() == 2 * 3 * 5);
  CHECK(glorot->fan_out() == 2 * 3 * 7);
  const auto uniform = MakeInitializer(
      Given("uniform", {{"minval", ConfigOf(int64_t{-1})}, {"seed", ConfigOf(int64_t{3})}}), 7,
      dims);
  REQUIRE(uniform.ok());
  CHECK(uniform->class_name() == "RandomUniform");
  CHECK(uniform->minval() == -1);
  CHECK(uniform->maxval() == 0.05);
  CHECK(uniform->seed() == 3);
  CHECK(MakeInitializer(Given("ones"), 7, dims)->value() == 1);
}

// Variance and bounds of every class that scales by fans, for a kernel of a convolution.
TEST_CASE("variances and bounds are Keras'") {
  const int64_t dims[] = {3, 3, 16, 32};
  const double in = 3 * 3 * 16, out = 3 * 3 * 32;
  const double truncated = 0.87962566103423978;
  const auto of = [&](const std::string& name, const char* mode = "",
                      const char* distribution = "") {
    std::vector<std::pair<std::string, v1::ConfigValue>> arguments;
    if (*mode != 0) arguments.emplace_back("mode", ConfigOf(std::string_view(mode)));
    if (*distribution != 0) {
      arguments.emplace_back("distribution", ConfigOf(std::string_view(distribution)));
    }
    const auto spec = MakeInitializer(Given(name, arguments), 7, dims);
    REQUIRE(spec.ok());
    return *spec;
  };
  CHECK(of("he_normal").class_name() == "TruncatedNormal");
  CHECK(of("he_normal").stddev() == Approx(std::sqrt(2 / in) / truncated));
  CHECK(of("lecun_normal").stddev() == Approx(std::sqrt(1 / in) / truncated));
  CHECK(of("glorot_normal").stddev() == Approx(std::sqrt(2 / (in + out)) / truncated));
  CHECK(of("he_uniform").class_name() == "RandomUniform");
  CHECK(of("he_uniform").maxval() == Approx(std::sqrt(6 / in)));
  CHECK(of("lecun_uniform").minval() == Approx(-std::sqrt(3 / in)));
  CHECK(of("variance_scaling", "fan_out", "uniform").maxval() == Approx(std::sqrt(3 / out)));
  CHECK(of("variance_scaling", "fan_avg", "untruncated_normal").class_name() == "RandomNormal");
  CHECK(of("variance_scaling", "fan_avg", "untruncated_normal").stddev() ==
        Approx(std::sqrt(2 / (in + out))));
  CHECK(of("variance_scaling").stddev() == of("lecun_normal").stddev());
  CHECK(of("variance_scaling", "fan_in", "normal").class_name() == "TruncatedNormal");
}

TEST_CASE("a wrong initializer is refused by name") {
  CHECK(ProblemOf(Given("RandomUniform", {{"minval", ConfigOf(1.0)}})) ==
        "RandomUniform: minval 1 exceeds maxval 0.05");
  CHECK(ProblemOf(Given("RandomNormal", {{"stddev", ConfigOf(-1.0)}})) ==
        "RandomNormal: stddev must be at least 0, not -1");
  CHECK(ProblemOf(Given("Zeros", {{"value", ConfigOf(1.0)}})) ==
        "Zeros has no arguments, and no \"value\"");
  CHECK_THAT(ProblemOf(Given("stft")),
             Catch::Contains("initializer \"stft\" is not supported yet; supported: Constant"));
  CHECK(ProblemOf(Given("VarianceScaling", {{"scale", ConfigOf(0.0)}})) ==
        "VarianceScaling: scale must be above 0, not 0");
  const int64_t vector[] = {5}, cube[] = {2, 3, 4}, large[] = {4096, 4096};
  CHECK(MakeInitializer(Given("identity"), 1, cube).status().message() ==
        "Identity needs a matrix, not 3 axes");
  CHECK(MakeInitializer(Given("orthogonal"), 1, vector).status().message() ==
        "Orthogonal needs two axes at least");
  CHECK_THAT(std::string(MakeInitializer(Given("orthogonal"), 1, large).status().message()),
             Catch::Contains("a matrix of 4096 x 4096 takes too long to compute"));
}

}  // namespace
}  // namespace cohort
