// Models of Keras begin with the weights that Keras wrote (make_weights_golden.py).

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/testing/directory_test_util.h"
#include "common/weights/initial_weights.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_model.h"

namespace cohort::golden {
namespace {

using nlohmann::json;
using testing::TestDirectory;

std::string Folder() {
  const char* source = std::getenv("COHORT_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/tests/golden/weights/";
}

struct Model {
  std::vector<v1::VariableSpec> variables;
  std::vector<ModelLayer> layers;
};

// The model that a job takes from Keras' JSON.
Model ModelOf(const json& c) {
  const TestDirectory directory;
  directory.Write("model.json", c["keras_json"].dump());
  const auto outputs = c["keras_json"]["config"].value("output_layers", json::array()).size();
  json job = {{"model", {{"keras_json", "model.json"}}},
              {"compile", {{"loss", "mse"}}},
              {"data", {{"train", {{"csv", {{"path", "none.csv"}}}, {"label", "label"}}}}}};
  if (outputs > 1) {
    job["compile"]["loss"] = {"mse", "mse"};
    job["data"]["train"]["label"] = {"a", "b"};
  }
  const auto read = ParseJob(job.dump(), directory / "job.yaml");
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  const auto features = DeclaredFeatures(read->spec);
  REQUIRE(features.ok());
  const auto model = BuildModel(read->spec, *features);
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  return {model->variables, read->layers};
}

TEST_CASE("variables begin with the weights of Keras' files") {
  const json cases = ReadGolden("weights/cases.json")["cases"];
  REQUIRE(cases.size() == 8);
  for (const json& c : cases) {
    INFO(c["file"]);
    const auto [variables, layers] = ModelOf(c);
    v1::InitialWeightsSpec spec;
    spec.set_path(c["file"].get<std::string>());
    const auto weights = FindInitialWeights(spec, Folder() + "job.yaml", variables, layers);
    INFO(weights.status().ToString());
    REQUIRE(weights.ok());
    CHECK(weights->match.kept.empty());
    REQUIRE(weights->match.loaded.size() == c["variables"].size());
    for (const WeightMatch::Pair& pair : weights->match.loaded) {
      const std::string& name = variables[pair.variable].name();
      INFO(name);
      size_t number = 0;
      while (c["variables"].at(number)["name"] != name) ++number;
      const auto value = weights->source->Read(pair.tensor, DType::kFloat32);
      REQUIRE(value.ok());
      const Tensor expected =
          UniformTensor(WeightSeed(c["seed"].get<uint64_t>(), static_cast<int>(number)),
                        DType::kFloat32, c["variables"][number]["dims"].get<Dims>(), -1, 1);
      REQUIRE(value->dims() == expected.dims());
      const auto a = value->values<float>(), b = expected.values<float>();
      CHECK(std::equal(a.begin(), a.end(), b.begin()));
    }
  }
}

// Without names of layers in the file, only the order of the model tells them.
TEST_CASE("a file that names classes needs the order of the layers") {
  const json cases = ReadGolden("weights/cases.json")["cases"];
  for (const json& c : cases) {
    const std::string file = c["file"];
    if (file != "order_keras_3_3.weights.h5" && file != "order_tf_keras.weights.h5") continue;
    INFO(file);
    const auto [variables, layers] = ModelOf(c);
    v1::InitialWeightsSpec spec;
    spec.set_path(file);
    const auto unknown = FindInitialWeights(spec, Folder() + "job.yaml", variables, {});
    CHECK_THAT(std::string(unknown.status().message()),
               Catch::Contains("the job file does not tell this order"));
    // Another model: the same with one layer more.
    auto other_layers = layers;
    auto other_variables = variables;
    other_layers.push_back({"extra", "Dense", 0});
    other_variables.emplace_back().set_name("extra/kernel");
    const auto other =
        FindInitialWeights(spec, Folder() + "job.yaml", other_variables, other_layers);
    CHECK_THAT(std::string(other.status().message()),
               Catch::Contains("has no \"dense_12\", which would be the layer \"extra\""));
    // With `rename`, the rules tell.
    spec.add_rename()->set_from("dense_1/");
    spec.mutable_rename(0)->set_to("m/");
    const auto renamed = FindInitialWeights(spec, Folder() + "job.yaml", variables, {});
    REQUIRE(renamed.ok());
    CHECK(renamed->match.loaded.size() == 2);
  }
}

TEST_CASE("names of weights may be in more than one attribute") {
  auto source = OpenWeights(Folder() + "split.h5");
  INFO(source.status().ToString());
  REQUIRE(source.ok());
  REQUIRE((*source)->tensors().size() == 2);
  CHECK((*source)->tensors()[0].name == "dense/0");
  CHECK((*source)->Read(0, DType::kFloat32)->values<float>()[1] == 2);
  CHECK((*source)->tensors()[1].name == "dense/1");
  CHECK((*source)->Read(1, DType::kFloat32)->values<float>()[0] == 3);
}

TEST_CASE("a file of Keras must not read other files") {
  const auto message = [](const std::string& name) {
    const auto source = OpenWeights(Folder() + name + ".h5");
    INFO(name);
    REQUIRE(!source.ok());
    return std::string(source.status().message());
  };
  CHECK_THAT(message("link"), Catch::Contains("link.h5: it has no dataset /dense/kernel:0"));
  CHECK_THAT(message("link_of_group"), Catch::Contains("it has no dataset /dense/out/kernel:0"));
  for (const char* name : {"external", "virtual"}) {
    CHECK_THAT(message(name), Catch::Contains("the values of /dense/kernel:0 are in other files"));
  }
}

// HDF5 1.10.8 ends with a segmentation fault at this file, and this process must not.
TEST_CASE("a file at which the library crashes is refused") {
  const TestDirectory directory;
  std::string bytes = testing::ReadAllBytes(Folder() + "split.h5");
  bytes.replace(2116, 8, 8, '\xff');
  const std::string path = directory.Write("crash.h5", bytes);
  const auto source = OpenWeights(path);
  REQUIRE(absl::IsDataLoss(source.status()));
  CHECK_THAT(std::string(source.status().message()),
             Catch::StartsWith(path + ": ") && Catch::Contains("no file of Keras"));
}

// The library must not crash, and errors must name the file.
TEST_CASE("an incomplete file of Keras is refused") {
  const TestDirectory directory;
  const std::string whole = Folder() + "nested.weights.h5";
  const auto size = std::filesystem::file_size(whole);
  int parts = 0, refused = 0;
  for (uintmax_t keep = 8; keep < size; keep += size / 40) {
    const std::string part = directory / "part.h5";
    std::filesystem::copy_file(whole, part, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(part, keep);
    ++parts;
    const auto source = OpenWeights(part);
    if (source.ok()) continue;
    ++refused;
    CHECK(absl::IsDataLoss(source.status()));
    CHECK(std::string(source.status().message()).find("part.h5") != std::string::npos);
  }
  CHECK(parts >= 40);
  CHECK(refused == parts);
}

}  // namespace
}  // namespace cohort::golden
