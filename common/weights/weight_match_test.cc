#include "common/weights/weight_match.h"

#include "common/testing/directory_test_util.h"
#include "common/weights/weights_test_util.h"
#include "proto/job.pb.h"

namespace cohort::weights_test {
namespace {

const std::vector<v1::VariableSpec> kVariables = {
    Variable("base/dense/kernel", {2, 3}), Variable("base/dense/bias", {3}),
    Variable("head/kernel", {3, 5}), Variable("head/bias", {5})};

struct Matching {
  explicit Matching(const std::vector<SafetensorsWriter::Entry>& entries)
      : source(*OpenWeights(WriteTensors(directory / "w.safetensors", entries))) {}

  absl::StatusOr<WeightMatch> Match() { return MatchWeights(spec, kVariables, layers, *source); }
  void Rename(const std::string& from, const std::string& to) {
    v1::RenameRule* const rule = spec.add_rename();
    rule->set_from(from);
    rule->set_to(to);
  }
  // "variable < tensor" of each pair.
  std::vector<std::string> Pairs() {
    const auto match = Match();
    INFO(match.status().ToString());
    REQUIRE(match.ok());
    std::vector<std::string> pairs;
    for (const WeightMatch::Pair& pair : match->loaded) {
      pairs.push_back(kVariables[pair.variable].name() + " < " +
                      source->tensors()[pair.tensor].name);
    }
    return pairs;
  }

  testing::TestDirectory directory;
  std::unique_ptr<WeightSource> source;
  v1::InitialWeightsSpec spec;
  std::vector<ModelLayer> layers;
};

const std::vector<SafetensorsWriter::Entry> kWhole = {
    {"base/dense/kernel", DType::kFloat32, {2, 3}},
    {"base/dense/bias", DType::kFloat32, {3}},
    {"head/kernel", DType::kFloat32, {3, 5}},
    {"head/bias", DType::kFloat32, {5}}};

TEST_CASE("variables begin with the tensors of their names, the others keep their initializers") {
  Matching m({{"head/kernel", DType::kFloat32, {3, 5}},
              {"base/dense/bias", DType::kFloat32, {3}},
              {"other/kernel", DType::kFloat32, {7}}});
  CHECK(m.Pairs() ==
        std::vector<std::string>{"base/dense/bias < base/dense/bias", "head/kernel < head/kernel"});
  const auto match = m.Match();
  CHECK(match->kept == std::vector<std::string>{"base/dense/kernel", "head/bias"});
  CHECK(match->unused == std::vector<std::string>{"other/kernel"});
  CHECK(Contains(match->Text(*m.source), "2 of 4 variables begin with the values of "));
  CHECK(
      Contains(match->Text(*m.source),
               "; with their initializers: base/dense/kernel, head/bias; not used: other/kernel"));
}

TEST_CASE("a tensor may be named by its layer and its number in the layer") {
  Matching m({{"base/dense/0", DType::kFloat32, {2, 3}},
              {"base/dense/1", DType::kFloat32, {3}},
              {"head/1", DType::kFloat32, {5}}});
  CHECK(m.Pairs() == std::vector<std::string>{"base/dense/kernel < base/dense/0",
                                              "base/dense/bias < base/dense/1",
                                              "head/bias < head/1"});
}

TEST_CASE("include and exclude choose variables by patterns") {
  Matching m(kWhole);
  SECTION("include") {
    m.spec.add_include("base/*");
    CHECK(m.Pairs().size() == 2);
    CHECK(m.Match()->kept == std::vector<std::string>{"head/kernel", "head/bias"});
  }
  SECTION("exclude") {
    m.spec.add_exclude("*/kernel");
    CHECK(m.Match()->kept == std::vector<std::string>{"base/dense/kernel", "head/kernel"});
  }
  SECTION("both: exclude wins") {
    m.spec.add_include("head/*");
    m.spec.add_exclude("head/b[ai]as");
    CHECK(m.Pairs() == std::vector<std::string>{"head/kernel < head/kernel"});
  }
  SECTION("a pattern that matches nothing is an error") {
    m.spec.add_include("base/*");
    m.spec.add_exclude("tail/*");
    CHECK(Contains(m.Match().status(),
                   "`exclude`: no variable matches \"tail/*\"; there are base/dense/kernel"));
    m.spec.clear_exclude();
    m.spec.add_include("bas/*");
    CHECK(Contains(m.Match().status(), "`include`: no variable matches \"bas/*\""));
  }
}

TEST_CASE("rename gives tensors the names of variables") {
  Matching m({{"dense/kernel", DType::kFloat32, {2, 3}},
              {"dense/bias", DType::kFloat32, {3}},
              {"old/top/kernel", DType::kFloat32, {3, 5}}});
  SECTION("the first rule that suits a name counts") {
    m.Rename("old/top/", "head/");
    m.Rename("", "base/");
    CHECK(m.Pairs() == std::vector<std::string>{"base/dense/kernel < dense/kernel",
                                                "base/dense/bias < dense/bias",
                                                "head/kernel < old/top/kernel"});
  }
  SECTION("a rule that changes no name is an error") {
    m.Rename("", "base/");
    m.Rename("old/top/", "head/");
    CHECK(Contains(m.Match().status(), "begins with \"old/top/\" and with no `from` before it"));
  }
  SECTION("two tensors for one variable are an error") {
    Matching twice({{"a", DType::kFloat32, {5}}, {"b", DType::kFloat32, {5}}});
    twice.Rename("a", "head/bias");
    twice.Rename("b", "head/1");
    CHECK(Contains(twice.Match().status(), "\"a\" and \"b\" are both for the variable head/bias"));
  }
}

TEST_CASE("another shape is an error, or keeps the initializer") {
  auto entries = kWhole;
  entries[2].dims = {3, 10};
  Matching m(entries);
  CHECK(Contains(m.Match().status(), "head/kernel has the shape [3, 5], and \"head/kernel\" in "));
  CHECK(Contains(m.Match().status(), "has [3, 10]: leave it out (`exclude: [head/kernel]`)"));
  m.spec.set_skip_mismatch(true);
  CHECK(m.Match()->kept == std::vector<std::string>{"head/kernel"});
  CHECK(m.Match()->unused == std::vector<std::string>{"head/kernel"});
}

TEST_CASE("a source without any variable of the model is an error") {
  Matching m({{"conv/kernel", DType::kFloat32, {1}}});
  CHECK(Contains(m.Match().status(), "no variable has a tensor in "));
  CHECK(Contains(m.Match().status(), "Tensors: conv/kernel. Use `rename`"));
}

// A source of an old HDF5 file: the names after "base/" are those of Keras.
class NestedSource : public WeightSource {
 public:
  explicit NestedSource(std::vector<SourceTensor> tensors) : WeightSource("old.h5") {
    for (SourceTensor& tensor : tensors) tensor.model_bytes = 5;
    REQUIRE(SetTensors(std::move(tensors)).ok());
  }

 protected:
  absl::Status ReadInto(const SourceTensor&, std::span<uint8_t>) override {
    return absl::OkStatus();
  }
};

// "variable < tensor" of each pair, or the error.
std::vector<std::string> PairsInModel(const std::vector<v1::VariableSpec>& variables,
                                      std::vector<SourceTensor> tensors,
                                      const v1::InitialWeightsSpec& spec = {}) {
  const NestedSource source(std::move(tensors));
  const auto match = MatchWeights(spec, variables, {}, source);
  if (!match.ok()) return {std::string(match.status().message())};
  std::vector<std::string> pairs;
  for (const WeightMatch::Pair& pair : match->loaded) {
    pairs.push_back(variables[pair.variable].name() + " < " + source.tensors()[pair.tensor].name);
  }
  return pairs;
}

TEST_CASE("names in a nested model may lack or repeat the names of models") {
  const std::vector<v1::VariableSpec> variables = {
      Variable("base/inner/c1/conv/kernel", {2}), Variable("base/inner/c2/conv/kernel", {2}),
      Variable("base/d/kernel", {2}), Variable("other/c1/conv/kernel", {2})};
  CHECK(PairsInModel(variables, {{"base/c1/conv/kernel", DType::kFloat32, {2}},
                                 {"base/inner/c2/conv/kernel", DType::kFloat32, {2}},
                                 {"base/whole/base/d/kernel", DType::kFloat32, {2}}}) ==
        std::vector<std::string>{"base/inner/c1/conv/kernel < base/c1/conv/kernel",
                                 "base/inner/c2/conv/kernel < base/inner/c2/conv/kernel",
                                 "base/d/kernel < base/whole/base/d/kernel"});
  CHECK(Contains(PairsInModel(variables, {{"base/conv/kernel", DType::kFloat32, {2}}}).at(0),
                 "old.h5: \"base/conv/kernel\" may be for base/inner/c1/conv/kernel and for "
                 "base/inner/c2/conv/kernel"));
  v1::InitialWeightsSpec spec;
  spec.add_rename()->set_from("base/");
  spec.mutable_rename(0)->set_to("other/");
  CHECK(PairsInModel(variables, {{"base/x/c1/conv/kernel", DType::kFloat32, {2}}}, spec) ==
        std::vector<std::string>{"other/c1/conv/kernel < base/x/c1/conv/kernel"});
}

}  // namespace
}  // namespace cohort::weights_test
