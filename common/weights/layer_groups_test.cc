#include "common/weights/layer_groups.h"

#include "common/weights/weights_test_util.h"

namespace cohort::weights_test {
namespace {

// A source that has these tensors without values.
class NamedSource : public WeightSource {
 public:
  explicit NamedSource(const std::vector<std::string>& names) : WeightSource("w.h5") {
    std::vector<SourceTensor> tensors;
    for (const std::string& name : names) tensors.push_back({.name = name});
    REQUIRE(SetTensors(std::move(tensors)).ok());
  }
  bool names_layers() const override { return false; }

 protected:
  absl::Status ReadInto(const SourceTensor&, std::span<uint8_t>) override {
    return absl::OkStatus();
  }
};

// In an order that is not the one of their names.
const std::vector<ModelLayer> kLayers = {
    {"x", "Input", 0},       {"zed", "Dense", 0},       {"inner", "Sequential", 0},
    {"inner/d", "Dense", 1}, {"inner/c", "Dense", 1},   {"norm", "LayerNormalization", 0},
    {"drop", "Dropout", 0},  {"last", "Functional", 0}, {"last/a", "Dense", 1},
    {"alpha", "Dense", 0},   {"beta", "Dense", 0}};
const std::vector<v1::VariableSpec> kCounted = {
    Variable("zed/kernel", {1}),     Variable("inner/d/kernel", {1}),
    Variable("inner/c/kernel", {1}), Variable("last/a/kernel", {1}),
    Variable("alpha/kernel", {1}),   Variable("beta/kernel", {1})};

// "tensor > name" of each.
std::vector<std::string> Names(const std::vector<std::string>& tensors,
                               const std::vector<ModelLayer>& layers = kLayers) {
  const NamedSource source(tensors);
  const auto names = NamesByClass(source, layers, kCounted);
  if (!names.ok()) return {std::string(names.status().message())};
  std::vector<std::string> pairs;
  for (size_t i = 0; i < names->size(); ++i) {
    pairs.push_back(source.tensors()[i].name + " > " + (*names)[i]);
  }
  return pairs;
}

const std::vector<std::string> kGroups = {
    "dense/0",           "dense_1/0", "dense_2/0", "sequential/dense/0", "sequential/dense_1/0",
    "functional/dense/0"};

TEST_CASE("layers are counted by class, in the order of the model and of each nested model") {
  CHECK(Names(kGroups) ==
        std::vector<std::string>{"dense/0 > zed/0", "dense_1/0 > alpha/0", "dense_2/0 > beta/0",
                                 "functional/dense/0 > last/a/0", "sequential/dense/0 > inner/d/0",
                                 "sequential/dense_1/0 > inner/c/0"});
}

TEST_CASE("a class that the model lacks, or the file, changes nothing") {
  CHECK(Names({"conv2d/0", "dropout/seed_generator/0", "functional/dense/0"}) ==
        std::vector<std::string>{"conv2d/0 > ", "dropout/seed_generator/0 > ",
                                 "functional/dense/0 > last/a/0"});
}

TEST_CASE("layers with variables may take two numbers") {
  CHECK(
      Names({"dense/0", "dense_2/0", "dense_4/0", "sequential/dense/0", "sequential/dense_2/0"}) ==
      std::vector<std::string>{"dense/0 > zed/0", "dense_2/0 > alpha/0", "dense_4/0 > beta/0",
                               "sequential/dense/0 > inner/d/0",
                               "sequential/dense_2/0 > inner/c/0"});
}

TEST_CASE("a class with another number of layers is refused") {
  auto more = kGroups;
  more.emplace_back("dense_3/0");
  CHECK(Contains(Names(more).at(0),
                 "w.h5: it names layers by their classes and their order, and "
                 "its \"dense_3\" is no layer with variables of this model"));
  auto less = kGroups;
  std::erase(less, "sequential/dense_1/0");
  CHECK(Contains(Names(less).at(0),
                 "has no \"sequential/dense_1\", which would be the layer \"inner/c\""));
  CHECK(Contains(Names(kGroups, {}).at(0), "the job file does not tell this order"));
}

}  // namespace
}  // namespace cohort::weights_test
