// Compares whole models with the real Keras (make_model_golden.py, in which Keras first sums the
// equal rows of a sparse gradient).

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/golden/golden_model.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

double MaxAbs(const std::vector<double>& values) {
  double max = 0;
  for (double v : values) max = std::max(max, std::abs(v));
  return max;
}

double MaxDifference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double max = 0;
  for (size_t i = 0; i < a.size(); ++i) max = std::max(max, std::abs(a[i] - b[i]));
  return max;
}

std::unique_ptr<GoldenModel> Make(const json& c, const std::string& floatx) {
  auto model = GoldenModel::Create(c, floatx);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  return *std::move(model);
}

// Runs the steps of a case and compares loss and metrics at each.
void FreeRun(GoldenModel* model, const json& golden, uint64_t seed) {
  model->SetWeights(seed);
  for (size_t step = 0; step < golden["losses"].size(); ++step) {
    INFO("step " << step);
    REQUIRE(model->ForwardAndBackward(static_cast<int>(step)).ok());
    REQUIRE(model->metric(0) ==
            Approx(golden["losses"][step].get<double>()).epsilon(1e-9).margin(1e-12));
    const json& metrics = golden["metrics"][step];
    for (size_t m = 0; m < metrics.size(); ++m) {
      REQUIRE(model->metric(m + 1) == Approx(metrics[m].get<double>()).margin(1e-12));
    }
    REQUIRE(model->Apply(static_cast<int>(step)).ok());
  }
}

TEST_CASE("a hundred free-running steps in float64 end at Keras' weights") {
  const json file = ReadGolden("models.json");
  for (const json& c : file["cases"]) {
    INFO(c["name"]);
    auto model = Make(c, "float64");
    FreeRun(model.get(), c["float64"], c["seed"].get<uint64_t>());
    for (const json& v : c["float64"]["variables"]) {
      INFO(v["name"]);
      const auto expected = v["values"].get<std::vector<double>>();
      REQUIRE(MaxDifference(model->Variable(v["name"]), expected) <= 1e-9 * MaxAbs(expected));
    }
    for (const json& v : c["float64"].value("state", json::array())) {
      INFO(v["name"]);
      const auto expected = v["values"].get<std::vector<double>>();
      REQUIRE(MaxDifference(model->Variable(v["name"]), expected) <= 1e-9 * MaxAbs(expected));
    }
  }
}

TEST_CASE("in float32, loss and gradients at Keras' weights are Keras'") {
  const json file = ReadGolden("models.json");
  for (const json& c : file["cases"]) {
    INFO(c["name"]);
    auto model = Make(c, "float32");
    for (size_t step = 0; step < c["float32"].size(); ++step) {
      INFO("step " << step);
      const json& golden = c["float32"][step];
      model->SetWeights(c["seed"].get<uint64_t>() + step);
      REQUIRE(model->ForwardAndBackward(static_cast<int>(step)).ok());
      REQUIRE(std::abs(model->metric(0) - golden["loss"].get<double>()) <= 1e-5);
      for (const json& g : golden["gradients"]) {
        INFO(g["name"]);
        const auto expected = g["values"].get<std::vector<double>>();
        REQUIRE(MaxDifference(model->Gradient(g["name"]), expected) <=
                1e-6 + 1e-5 * MaxAbs(expected));
      }
    }
  }
}

// Compares a variable with its description: sum, largest element, samples.
void CompareDescribed(const GoldenModel& model, const json& v) {
  INFO(v["name"]);
  const std::vector<double> value = model.Variable(v["name"]);
  const double tolerance = 1e-9 * v["max_abs"].get<double>();
  double sum = 0;
  for (double x : value) sum += x;
  REQUIRE(std::abs(sum - v["sum"].get<double>()) <= tolerance * static_cast<double>(value.size()));
  for (const json& sample : v["samples"]) {
    REQUIRE(std::abs(value[sample[0].get<size_t>()] - sample[1].get<double>()) <= tolerance);
  }
}

void CompareRandomModels(const std::string& file_name) {
  const json file = ReadGolden(file_name);
  REQUIRE(file["cases"].size() == 200);
  for (const json& c : file["cases"]) {
    INFO(c["name"]);
    auto model = Make(c, "float64");
    FreeRun(model.get(), c["float64"], c["seed"].get<uint64_t>());
    for (const char* part : {"variables", "state"}) {
      for (const json& v : c["float64"].value(part, json::array())) CompareDescribed(*model, v);
    }
  }
}

TEST_CASE("two hundred random models agree with Keras after five steps") {
  CompareRandomModels("random_models.json");
}

TEST_CASE("two hundred random models of convolutions agree with Keras after four steps") {
  CompareRandomModels("random_image_models.json.gz");
}

}  // namespace
}  // namespace cohort::golden
