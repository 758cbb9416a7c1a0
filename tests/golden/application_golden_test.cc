// One training step of models of keras.applications, from the JSON of Keras, compared with Keras
// (make_application_golden.py).
#include <zlib.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/base/status.h"
#include "common/exec/executable.h"
#include "common/exec/local_variables.h"
#include "common/exec/local_variables_test_util.h"
#include "common/exec/test_device.h"
#include "common/model/model_builder.h"
#include "common/testing/directory_test_util.h"
#include "tests/golden/golden_data.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

constexpr int64_t kImages = 8;

json ReadCases() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  const std::string path =
      std::string(source != nullptr ? source : ".") + "/tests/golden/applications.json.gz";
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  std::string block(1 << 16, '\0');
  for (int n = 0; (n = gzread(file, block.data(), 1 << 16)) > 0;) {
    text.append(block, 0, static_cast<size_t>(n));
  }
  REQUIRE(gzclose(file) == Z_OK);
  return json::parse(text)["cases"];
}

using Values = std::vector<double>;

Values ToDoubles(DType dtype, const void* data, int64_t count) {
  const auto size = static_cast<size_t>(count);
  if (dtype == DType::kFloat64) {
    const auto* const from = static_cast<const double*>(data);
    return {from, from + size};
  }
  const auto* const from = static_cast<const float*>(data);
  return {from, from + size};
}

double Norm(const Values& values) {
  double sum = 0;
  for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

// A model, its weights and one batch, in one dtype.
class Application {
 public:
  Application(const json& c, DType dtype) : case_(c), dtype_(dtype) {
    const testing::TestDirectory directory;
    std::string model = c["keras_json"].dump();
    const std::string from = "\"float64\"", to = "\"" + std::string(DTypeName(dtype)) + "\"";
    for (size_t at = 0; (at = model.find(from, at)) != std::string::npos; at += to.size()) {
      model.replace(at, from.size(), to);
    }
    directory.Write("model.json", model);
    const json text = {{"model", {{"keras_json", "model.json"}}},
                       {"compile",
                        {{"optimizer", {{"SGD", {{"learning_rate", 0.1}}}}},
                         {"loss", "sparse_categorical_crossentropy"}}},
                       {"data",
                        {{"batch_size", kImages},
                         {"train", {{"csv", {{"path", "none.csv"}}}, {"label", "label"}}}}}};
    const auto job = ParseJob(text.dump(), directory / "job.yaml");
    INFO(job.status().ToString());
    REQUIRE(job.ok());
    const json& layers = c["keras_json"]["config"]["layers"];
    const int64_t size = layers[0]["config"]["batch_shape"][1];
    const std::vector<FeatureType> features = {
        {layers[0]["config"]["name"].get<std::string>(), dtype, {size, size, 3}},
        {"label", DType::kInt64, {}}};
    auto built = BuildModel(job->spec, features, &job->lines);
    INFO(built.status().ToString());
    REQUIRE(built.ok());
    AddVariables(*built);
    const auto seed = c["seed"].get<uint64_t>();
    batch_ = {
        UniformTensor(InputSeed(seed, 0, 0), dtype, {kImages, size, size, 3}, c["low"], c["high"]),
        IntegerTensor(InputSeed(seed, 0, kLabelPosition), {kImages}, 10)};
    train_ = Compile(std::move(built->train));
    predict_ = Compile(std::move(built->predict));
  }

  Values Predict() {
    Run(predict_.get(), std::span(batch_).first(1));
    const Tensor output = predict_->output(0);
    return ToDoubles(dtype_, output.raw(), output.num_elements());
  }

  // Runs a step and applies it. Afterwards there are loss and gradients of the mean loss.
  void Train() {
    auto access = Run(train_.get(), batch_);
    loss_ = train_->metric_values()[0] / train_->metric_values()[1];
    for (const PushItem& push : train_->pushes()) {
      if (push.kind != PushKind::kGradient) continue;
      const VariableDecl& variable =
          train_->program().variables[static_cast<size_t>(push.variable)];
      Values values = ToDoubles(dtype_, push.value, CapacityElements(variable.type));
      for (double& v : values) v /= train_->weight();
      gradients_[variable.name] = std::move(values);
    }
    const PushBatch push{.stamp = {.closure = 1, .weight = train_->weight()},
                         .items = train_->pushes()};
    REQUIRE(access->Exchange(&push, nullptr).ok());
  }

  double loss() const { return loss_; }
  const std::map<std::string, Values>& gradients() const { return gradients_; }
  Values Variable(const std::string& name) {
    const Tensor value = testing::TensorsOf(*variables_, name).at(0);
    return ToDoubles(dtype_, value.raw(), value.num_elements());
  }

 private:
  // The weights of make_application_golden.py.
  void AddVariables(const BuiltModel& model) {
    auto variables = LocalVariables::Create(model.variables, model.optimizers);
    INFO(variables.status().ToString());
    REQUIRE(variables.ok());
    variables_ = *std::move(variables);
    for (const v1::VariableSpec& v : model.variables) {
      const Dims dims(v.dims().begin(), v.dims().end());
      const json& weights = case_["weights"];
      const auto found = std::ranges::find_if(
          weights, [&](const json& weight) { return weight["name"] == v.name(); });
      INFO(v.name());
      REQUIRE(found != weights.end());
      const uint64_t seed =
          WeightSeed(case_["seed"].get<uint64_t>(), static_cast<int>(found - weights.begin()));
      const double middle = (*found)["middle"], scale = (*found)["scale"];
      testing::SetVariable(*variables_, v.name(),
                           UniformTensor(seed, dtype_, dims, middle - scale, middle + scale));
    }
    CHECK(model.variables.size() == case_["weights"].size());
  }

  std::unique_ptr<Executable> Compile(Program program) {
    auto executable =
        Executable::Compile(std::move(program), testing::OnTestDevice({.intra_op_threads = 2}));
    INFO(executable.status().ToString());
    REQUIRE(executable.ok());
    return *std::move(executable);
  }

  std::unique_ptr<VariableAccess> Run(Executable* executable, std::span<const Tensor> batch) {
    auto access = variables_->ForProgram(executable->program());
    REQUIRE(access.ok());
    REQUIRE(executable->Bind(batch).ok());
    REQUIRE(executable->Prepare(RandomKey{}).ok());
    const PullBatch pull{.items = executable->pulls()};
    REQUIRE((*access)->Exchange(nullptr, &pull).ok());
    REQUIRE(executable->Run().ok());
    return *std::move(access);
  }

  const json& case_;
  const DType dtype_;
  std::unique_ptr<LocalVariables> variables_;
  std::vector<Tensor> batch_;
  std::unique_ptr<Executable> train_;
  std::unique_ptr<Executable> predict_;
  double loss_ = 0;
  std::map<std::string, Values> gradients_;
};

// `floor`: a norm below which a tensor counts as a rounding error.
void CompareTensor(const json& expected, uint64_t seed, const Values& actual, double floor) {
  INFO(expected["name"]);
  const auto norm = expected["norm"].get<double>();
  const double margin = 1e-8 * std::max(norm, floor);
  CHECK(std::abs(Norm(actual) - norm) <= margin);
  const auto count = static_cast<int64_t>(actual.size());
  for (uint64_t k = 0; k < 2; ++k) {
    double product = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      product += actual[i] * (-1 + 2 * Uniform(seed + 1 + k, i));
    }
    CHECK(std::abs(product - expected["products"][k].get<double>()) <= margin);
  }
  const Tensor picked =
      IntegerTensor(seed, {static_cast<int64_t>(expected["samples"].size())}, count);
  for (size_t s = 0; s < expected["samples"].size(); ++s) {
    const double value = actual[static_cast<size_t>(picked.values<int64_t>()[s])];
    CHECK(std::abs(value - expected["samples"][s].get<double>()) <= margin);
  }
}

// The bias of a convolution before a normalization has only rounding errors as its gradient.
double LargestNorm(const json& tensors) {
  double largest = 0;
  for (const json& t : tensors) largest = std::max(largest, t["norm"].get<double>());
  return largest;
}

void CompareApplication(const json& c) {
  INFO(c["name"]);
  Application model(c, DType::kFloat64);
  const Values predictions = model.Predict();
  REQUIRE(predictions.size() == c["predictions"].size());
  for (size_t i = 0; i < predictions.size(); ++i) {
    CHECK(predictions[i] == Approx(c["predictions"][i].get<double>()).epsilon(1e-8));
  }
  model.Train();
  CHECK(model.loss() == Approx(c["loss"].get<double>()).epsilon(1e-8));
  const double floor = 1e-4 * LargestNorm(c["gradients"]);
  REQUIRE(model.gradients().size() == c["gradients"].size());
  for (size_t i = 0; i < c["gradients"].size(); ++i) {
    const json& expected = c["gradients"][i];
    CompareTensor(expected, 11 * i, model.gradients().at(expected["name"]), floor);
  }
  for (const json& expected : c["moving"]) {
    CompareTensor(expected, expected["seed"].get<uint64_t>(), model.Variable(expected["name"]), 0);
  }

  Application rounded(c, DType::kFloat32);
  rounded.Train();
  CHECK(rounded.loss() == Approx(model.loss()).epsilon(1e-4));
  // Rounding moves units across the corner of a ReLU. One unit of MobileNetV2 that crosses it
  // changes gradients by 0.25 to 0.4 %: inputs that are 6e-7 larger do so on a CPU, sums in another
  // order on a GPU. Without a crossing the difference is 1e-5.
  constexpr double margin = 1e-2;
  double worst = 0;
  for (const auto& [name, exact] : model.gradients()) {
    Values difference = rounded.gradients().at(name);
    for (size_t i = 0; i < exact.size(); ++i) difference[i] -= exact[i];
    const double norm = Norm(exact);
    INFO(name);
    CHECK(Norm(difference) <= margin * std::max(norm, floor));
    if (norm > floor) worst = std::max(worst, Norm(difference) / norm);
  }
  WARN(c["name"].get<std::string>() << ": float32 gradients differ by at most " << worst
                                    << ", Keras' by " << c["float32_difference"].get<double>());
}

TEST_CASE("a step of MobileNetV2 equals that of Keras") { CompareApplication(ReadCases()[0]); }
TEST_CASE("a step of ResNet50 equals that of Keras") { CompareApplication(ReadCases()[1]); }
TEST_CASE("a step of EfficientNetB0 equals that of Keras") { CompareApplication(ReadCases()[2]); }
TEST_CASE("a step of MobileNetV3 equals that of Keras") { CompareApplication(ReadCases()[3]); }

}  // namespace
}  // namespace cohort::golden
