// Trains models from the JSON of Keras 3 and tf_keras, and compares them with Keras
// (make_keras_json_golden.py).

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <set>

#include "common/testing/directory_test_util.h"
#include "proto/job.pb.h"
#include "tests/golden/golden_model.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

// The logs of a step in Keras have the same names.
void CompareLogs(const GoldenModel& model, const json& logs) {
  const std::vector<std::string> names = model.metric_names();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == logs.size());
  for (size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    REQUIRE(logs.contains(names[i]));
    REQUIRE(model.metric(i) == Approx(logs[names[i]].get<double>()).epsilon(1e-9).margin(1e-12));
  }
}

// tf_keras rounds hyperparameters to float32, and golden files have 12 digits.
void CompareVariable(const GoldenModel& model, const json& variable) {
  INFO(variable["name"]);
  const auto expected = variable["values"].get<std::vector<double>>();
  const std::vector<double> actual = model.Variable(variable["name"]);
  REQUIRE(actual.size() == expected.size());
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(std::abs(actual[i] - expected[i]) <= 1e-9 * largest);
  }
}

void Compare(const json& c) {
  INFO(c["name"]);
  const testing::TestDirectory directory;
  auto model = GoldenModel::CreateFromKeras(c, directory.path());
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  (*model)->SetWeights(c["seed"].get<uint64_t>());
  for (size_t step = 0; step < c["logs"].size(); ++step) {
    INFO("step " << step);
    REQUIRE((*model)->ForwardAndBackward(static_cast<int>(step)).ok());
    CompareLogs(**model, c["logs"][step]);
    REQUIRE((*model)->Apply(static_cast<int>(step)).ok());
  }
  for (const json& variable : c["variables"]) CompareVariable(**model, variable);
}

TEST_CASE("models from the JSON of Keras 3 and tf_keras learn what they learn in Keras") {
  const json file = ReadGolden("keras_json_models.json");
  REQUIRE(file["cases"].size() == 12);
  for (const json& c : file["cases"]) Compare(c);
}

// make_operator_golden.py makes the file.
TEST_CASE(
    "models with functions of keras.ops, masks and attention learn what they learn in Keras") {
  const json file = ReadGolden("operator_models.json.gz");
  REQUIRE(file["cases"].size() > 90);
  for (const json& c : file["cases"]) Compare(c);
}

// make_image_golden.py makes the file.
TEST_CASE("all layers for images of a model of Keras become transforms of its data") {
  const json golden = ReadGolden("images.json")["model"];
  const testing::TestDirectory directory;
  directory.Write("model.json", golden["json"].get<std::string>());
  const auto job = ParseJob(
      "model: {keras_json: model.json}\ncompile: {loss: mse}\n"
      "data: {batch_size: 8, train: {csv: {path: a.csv}, label: y}}\n",
      directory / "job.yaml");
  INFO(job.status());
  REQUIRE(job.ok());
  std::vector<std::string> classes;
  for (const v1::ColumnTransform& transform : job->spec.data().train().transforms()) {
    classes.push_back(transform.transform_class().class_name());
  }
  CHECK(classes == golden["transforms"].get<std::vector<std::string>>());
  const v1::LayerSpec& input = job->spec.model().layers(0);
  CHECK(input.class_name() == "Input");
  CHECK(ConfigText(input.config().at("shape")) == "[24, 24, 3]");
  CHECK(job->spec.model().layers(1).class_name() == "Rescaling");
}

// make_tensorflow_golden.py makes the file.
TEST_CASE("models of tf_keras with functions of TensorFlow learn what they learn in Keras") {
  const json file = ReadGolden("tensorflow_models.json.gz");
  REQUIRE(file["cases"].size() > 20);
  for (const json& c : file["cases"]) Compare(c);
}

// keras_json_peer_test.py names a file with many models.
TEST_CASE("random models of a file learn what they learn in Keras", "[.peer]") {
  const char* file = std::getenv("COHORT_KERAS_JSON_MODELS");
  REQUIRE(file != nullptr);
  const json models = ReadGolden(file);
  REQUIRE(!models["cases"].empty());
  for (const json& c : models["cases"]) Compare(c);
  WARN(models["cases"].size() << " models");
}

}  // namespace
}  // namespace cohort::golden
