#include "common/optimizers/gradient_clipping.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "common/optimizers/optimizers.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using Clip = GradientClipping::Kind;

GradientClipping ClippingWith(std::string_view name, double value) {
  const auto clipping =
      GradientClipping::Of(OptimizerOf("Adam", {{std::string(name), ConfigOf(value)}}));
  INFO(clipping.status());
  REQUIRE(clipping.ok());
  return *clipping;
}

TEST_CASE("every optimizer has Keras' arguments for clipping") {
  CHECK(ClippingWith("clipvalue", 0.5).kind == Clip::kValue);
  CHECK(ClippingWith("clipnorm", 0.5).kind == Clip::kNorm);
  CHECK(ClippingWith("global_clipnorm", 0.5).kind == Clip::kGlobalNorm);
  CHECK(ClippingWith("global_clipnorm", 0.5).limit == 0.5);
  CHECK(ClippingWith("clipnorm", 0).kind == Clip::kNone);
  for (const char* name : {"Adagrad", "Adam", "AdamW", "Ftrl", "RMSprop", "SGD"}) {
    INFO(name);
    CHECK(GradientClipping::Of(OptimizerOf(name, {}))->kind == Clip::kNone);
    CHECK(GradientClipping::Of(OptimizerOf(name, {{"clipnorm", ConfigOf(int64_t{2})}}))->limit ==
          2);
  }
}

TEST_CASE("only one way of clipping can be chosen") {
  std::string argument;
  const auto both = CompleteOptimizer(
      OptimizerOf("SGD", {{"clipnorm", ConfigOf(1.0)}, {"global_clipnorm", ConfigOf(1.0)}}),
      &argument);
  CHECK(
      both.status().message() ==
      "SGD: only one of clipnorm, clipvalue and global_clipnorm can be set, not both clipnorm and "
      "global_clipnorm");
  CHECK(argument == "global_clipnorm");
  CHECK_FALSE(CompleteOptimizer(OptimizerOf("SGD", {{"clipvalue", ConfigOf(-1.0)}})).ok());
}

TEST_CASE("a gradient is scaled down to the most norm, and never up") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const Clip kind : {Clip::kNorm, Clip::kGlobalNorm}) {
    const GradientClipping clipping{kind, 2};
    CHECK(clipping.by_norm());
    CHECK(clipping.ScaleOf(0) == 1);
    CHECK(clipping.ScaleOf(2) == 1);
    CHECK(clipping.ScaleOf(8) == 0.25);
  }
  CHECK(GradientClipping{Clip::kNorm, 2}.ScaleOf(infinity) == 0);
  CHECK(std::isnan(GradientClipping{Clip::kGlobalNorm, 2}.ScaleOf(infinity)));
  CHECK(GradientClipping{Clip::kValue, 2}.ScaleOf(8) == 1);
}

}  // namespace
}  // namespace cohort
