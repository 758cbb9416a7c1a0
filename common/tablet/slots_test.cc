// Slots with one number for each row, and slots of bfloat16.
#include <algorithm>
#include <cmath>
#include <random>

#include "common/optimizers/rules/rule.h"
#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

constexpr int64_t kSlotRows = 500;
constexpr int64_t kSlotWidth = 16;

v1::OptimizerSpec OptimizerWith(const std::string& name, const std::string& slot_dtype,
                                const std::string& update = "lazy") {
  return OptimizerOf(
      name, {{"learning_rate", ConfigOf(0.05)}, {"slot_dtype", ConfigOf(slot_dtype)}}, update);
}

v1::Layout TableOf(const v1::OptimizerSpec& optimizer) {
  v1::Layout layout;
  *layout.add_variables() = Variable("w", {kSlotRows, kSlotWidth});
  layout.mutable_variables(0)->set_row_reads(true);
  layout.add_shards()->set_rows(kSlotRows);
  layout.add_tablets();
  *layout.add_optimizers() = optimizer;
  return layout;
}

std::vector<int64_t> AllRows() {
  std::vector<int64_t> rows(kSlotRows);
  for (int64_t i = 0; i < kSlotRows; ++i) rows[static_cast<size_t>(i)] = i;
  return rows;
}

// Pushes gradients of some rows, or of all (dense).
void Train(TestTablet* tablet, uint64_t steps, bool dense) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> draw(-0.05f, 0.05f);
  for (uint64_t step = 0; step < steps; ++step) {
    TestPush push(step);
    std::vector<int64_t> keys;
    for (int64_t row = 0; row < kSlotRows; ++row) {
      if (dense || random() % 4 == 0) keys.push_back(row);
    }
    std::vector<float> values(keys.size() * kSlotWidth);
    std::ranges::generate(values, [&] { return 0.02f + draw(random); });
    if (dense) {
      push.Dense<float>(0, values);
    } else {
      push.Sparse<float>(0, keys, values);
    }
    REQUIRE(tablet->Push(push).status() == v1::APPLIED);
  }
}

std::vector<float> Trained(const v1::OptimizerSpec& optimizer, size_t block_bytes, bool dense) {
  TestTablet tablet(TableOf(optimizer), block_bytes);
  Train(&tablet, 300, dense);
  return tablet.PullRows(0, AllRows());
}

TEST_CASE("a slot of bfloat16 takes half of the memory, and one by row a number for each") {
  const auto bytes = [](const v1::OptimizerSpec& optimizer) {
    return TestTablet(TableOf(optimizer), 4096)->bytes();
  };
  CHECK(bytes(OptimizerWith("SGD", "float32")) == kSlotRows * kSlotWidth * 4);
  CHECK(bytes(OptimizerWith("Adagrad", "float32")) == kSlotRows * kSlotWidth * 8);
  CHECK(bytes(OptimizerWith("Adagrad", "bfloat16")) == kSlotRows * kSlotWidth * 6);
  CHECK(bytes(OptimizerWith("Adam", "bfloat16")) == kSlotRows * kSlotWidth * 8);
  CHECK(bytes(OptimizerWith("RowwiseAdagrad", "float32")) == kSlotRows * (kSlotWidth * 4 + 4));
}

TEST_CASE("the bits do not depend on blocks, and the values are near those of float32") {
  for (const char* const name : {"Adagrad", "Adam", "Ftrl", "RMSprop", "RowwiseAdagrad"}) {
    for (const bool dense : {false, true}) {
      CAPTURE(name, dense);
      const bool by_row = name == std::string("RowwiseAdagrad");
      const auto halves = OptimizerWith(name, by_row ? "float32" : "bfloat16");
      const std::vector<float> values = Trained(halves, 1 << 20, dense);
      CHECK(values == Trained(halves, 256, dense));
      CHECK(values == Trained(halves, 3000, dense));
      if (by_row) continue;
      const std::vector<float> exact = Trained(OptimizerWith(name, "float32"), 1 << 20, dense);
      double difference = 0, size = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        difference += std::abs(static_cast<double>(values[i]) - static_cast<double>(exact[i]));
        size += std::abs(static_cast<double>(exact[i]));
      }
      CAPTURE(difference / size);
      CHECK(difference > 0);
      // The values of Ftrl are computed from a slot.
      CHECK(difference / size < (name == std::string("Ftrl") ? 0.04 : 0.02));
    }
  }
}

TEST_CASE("random rounding loses no addend that is smaller than the distance of two values") {
  // Between 2 and 4 the distance is 2^-6. To round to the nearest value would leave 2 as it is.
  double sum = 0;
  for (uint64_t run = 0; run < 200; ++run) {
    float value = 2 + 0x1p-20f * static_cast<float>(run);
    for (uint64_t step = 0; step < 1000; ++step) {
      value += 0.001f;
      value = FromBfloat16Bits(RoundedBfloat16(value, RoundingOf(1000 * run + step)));
    }
    sum += static_cast<double>(value);
  }
  CHECK(std::abs(sum / 200 - 3) < 0.03);
  // What bfloat16 has stays, and so do infinities and NaN.
  for (const float value : {0.0f, -0.0f, 1.5f, -3.0e38f, std::numeric_limits<float>::infinity()}) {
    const float rounded = value == -3.0e38f ? FromBfloat16Bits(Bfloat16Bits(value)) : value;
    for (uint32_t rounding = 0; rounding < 1000; ++rounding) {
      REQUIRE(FromBfloat16Bits(RoundedBfloat16(rounded, rounding)) == rounded);
    }
  }
  CHECK(std::isnan(FromBfloat16Bits(RoundedBfloat16(std::nanf(""), 7))));
}

TEST_CASE("optimizers whose slots cannot be bfloat16 are refused") {
  const auto refused = [](const v1::OptimizerSpec& spec, const char* why) {
    std::string argument;
    const auto made = CompleteOptimizer(spec, &argument);
    REQUIRE(!made.ok());
    CHECK_THAT(std::string(made.status().message()), Catch::Contains(why));
    CHECK(argument == "slot_dtype");
  };
  for (const char* const name : {"Lamb", "Adafactor", "Muon", "RowwiseAdagrad"}) {
    refused(OptimizerWith(name, "bfloat16", "keras"), "slots of float32 only");
  }
  for (const auto& [name, value] : std::vector<std::pair<std::string, v1::ConfigValue>>{
           {"use_ema", ConfigOf(true)}, {"gradient_accumulation_steps", ConfigOf(int64_t{2})}}) {
    v1::OptimizerSpec spec = OptimizerWith("Adam", "bfloat16", "keras");
    (*spec.mutable_rule()->mutable_config())[name] = value;
    refused(spec, "need slots of float32");
  }
  refused(OptimizerWith("Adam", "float16"), "bfloat16");
}

}  // namespace
}  // namespace cohort::ps_test
