#include "common/graph/loss_scale.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

constexpr LossScaling kRule{.initial = 0x1p15, .growth_steps = 3};

TEST_CASE("the scale doubles after growth_steps finite steps in a row") {
  LossScale scale(kRule);
  for (int i = 0; i < 2; ++i) scale.OnStep(scale.scale(), true);
  CHECK(scale.scale() == 0x1p15);
  CHECK(scale.finite_steps() == 2);
  scale.OnStep(scale.scale(), true);
  CHECK(scale.scale() == 0x1p16);
  CHECK(scale.finite_steps() == 0);
}

TEST_CASE("a gradient that is not finite halves the scale and begins the count again") {
  LossScale scale(kRule);
  for (int i = 0; i < 2; ++i) scale.OnStep(scale.scale(), true);
  scale.OnStep(scale.scale(), false);
  CHECK(scale.scale() == 0x1p14);
  for (int i = 0; i < 2; ++i) scale.OnStep(scale.scale(), true);
  CHECK(scale.scale() == 0x1p14);
  scale.OnStep(scale.scale(), true);
  CHECK(scale.scale() == 0x1p15);
}

TEST_CASE("steps that began with another scale change nothing") {
  LossScale scale(kRule);
  scale.OnStep(0x1p15, false);
  scale.OnStep(0x1p15, false);
  CHECK(scale.scale() == 0x1p14);
  for (int i = 0; i < 5; ++i) scale.OnStep(0x1p15, true);
  CHECK(scale.finite_steps() == 0);
}

TEST_CASE("the scale has limits") {
  LossScale scale(kRule);
  for (int i = 0; i < 100; ++i) scale.OnStep(scale.scale(), false);
  CHECK(scale.scale() == 1);
  for (int i = 0; i < 1000; ++i) scale.OnStep(scale.scale(), true);
  CHECK(scale.scale() == 0x1p100);
}

TEST_CASE("a fixed scale stays") {
  LossScale scale({.initial = 1024, .growth_steps = 0});
  for (const bool finite : {true, false, false}) scale.OnStep(1024, finite);
  CHECK(scale.scale() == 1024);
  CHECK(LossScale({.initial = 1024, .growth_steps = 0}, 8, 0).scale() == 1024);
}

TEST_CASE("a scale continues from a saved state") {
  LossScale scale(kRule, 64, 2);
  scale.OnStep(64, true);
  CHECK(scale.scale() == 128);
  CHECK(LossScale(kRule, 0, 0).scale() == kRule.initial);
}

}  // namespace
}  // namespace cohort
