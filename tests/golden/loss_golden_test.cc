// Compares losses, their reductions, and weights of records and classes with the real Keras
// (make_loss_golden.py): what it reports after each step, and the weights at the end.

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"
#include "tests/golden/golden_model.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

double Largest(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) largest = std::max(largest, std::abs(v));
  return largest;
}

// What the chief reports of the steps so far: sums over all of them.
void CheckReported(const GoldenModel& model, const json& expected, bool after_short_batch,
                   std::map<std::string, std::pair<double, double>>* sums) {
  const std::vector<std::string> names = model.metric_names();
  REQUIRE(names.size() == expected.size());
  for (size_t i = 0; i < names.size(); ++i) {
    auto& [total, count] = (*sums)[names[i]];
    total += model.metric_sums(i).first;
    count += model.metric_sums(i).second;
    // The mean loss of an output is that of its records; Keras counts batches there, as it knows no
    // size of them when it traces the step.
    if (after_short_batch && names[i].ends_with("_loss")) continue;
    INFO(names[i]);
    REQUIRE(expected.contains(names[i]));
    REQUIRE(total / count == Approx(expected[names[i]].get<double>()).epsilon(1e-9).margin(1e-12));
  }
}

TEST_CASE("losses, with weights of records and classes, are Keras'") {
  const json file = ReadGolden("losses.json");
  REQUIRE(file["cases"].size() >= 40);
  for (const json& c : file["cases"]) {
    INFO(c["name"] << " " << c.value("sample_weight", json()) << " "
                   << c.value("class_weight", json()));
    const auto made = GoldenModel::Create(c, "float64");
    INFO(made.status().ToString());
    REQUIRE(made.ok());
    GoldenModel* const model = made->get();
    model->SetWeights(c["seed"].get<uint64_t>());
    std::map<std::string, std::pair<double, double>> sums;
    for (size_t step = 0; step < c["reported"].size(); ++step) {
      INFO("step " << step);
      REQUIRE(model->ForwardAndBackward(static_cast<int>(step)).ok());
      CheckReported(*model, c["reported"][step], step >= 3, &sums);
      REQUIRE(model->Apply(static_cast<int>(step)).ok());
    }
    for (const json& v : c["float64"]["variables"]) {
      INFO(v["name"]);
      const auto expected = v["values"].get<std::vector<double>>();
      const std::vector<double> value = model->Variable(v["name"]);
      REQUIRE(value.size() == expected.size());
      for (size_t i = 0; i < value.size(); ++i) {
        REQUIRE(std::abs(value[i] - expected[i]) <= 1e-9 * Largest(expected));
      }
    }
  }
}

// The names that no class has yet are in the list of planned ones.
TEST_CASE("every string that Keras' compile takes names a loss or a metric") {
  const json strings = ReadGolden("keras_surface.json")["strings"];
  const std::map<std::string, const SchemaSet*> sets = {{"Losses", &Losses()},
                                                        {"Metrics", &Metrics()}};
  for (const auto& [group, set] : sets) {
    REQUIRE(strings[group].size() > 50);
    for (const json& name : strings[group]) {
      INFO(group << " " << name);
      const auto schema = set->FindSchema(name.get<std::string>());
      CHECK((schema.ok() || absl::IsUnimplemented(schema.status())));
    }
  }
  // get_loss and get_metric of keras/src/trainers/compile_utils.py, and those of tf_keras.
  for (const char* name : {"crossentropy", "ce", "CE"}) {
    CHECK((*Losses().FindSchema(name))->name == "crossentropy");
    CHECK((*Metrics().FindSchema(name))->name == "crossentropy");
  }
  for (const char* name : {"accuracy", "acc", "ACC"}) {
    CHECK((*Metrics().FindSchema(name))->name == "accuracy");
  }
}

}  // namespace
}  // namespace cohort::golden
