#include "common/placement/initializer_classes.h"

#include <catch2/catch.hpp>

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
    CHECK(spec->class_name() == schema->name);
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

TEST_CASE("a wrong initializer is refused by name") {
  CHECK(ProblemOf(Given("RandomUniform", {{"minval", ConfigOf(1.0)}})) ==
        "RandomUniform: minval 1 exceeds maxval 0.05");
  CHECK(ProblemOf(Given("RandomNormal", {{"stddev", ConfigOf(-1.0)}})) ==
        "RandomNormal: stddev must be at least 0, not -1");
  CHECK(ProblemOf(Given("Zeros", {{"value", ConfigOf(1.0)}})) ==
        "Zeros has no arguments, and no \"value\"");
  CHECK_THAT(
      ProblemOf(Given("he_normal")),
      Catch::Contains("initializer \"he_normal\" is not supported yet; supported: Constant"));
}

}  // namespace
}  // namespace cohort
