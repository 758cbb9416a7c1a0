#include "deploy/launcher/job_warnings.h"

#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <set>

#include "common/base/exit_code.h"
#include "common/testing/directory_test_util.h"
#include "deploy/launcher/check_job.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kLabels[] = "x,y,label\n";

// What one rule finds.
std::vector<std::string> Find(std::string_view name, const JobFacts& job) {
  std::vector<std::string> warnings;
  bool found = false;
  for (const JobRule& rule : JobRules()) {
    if (rule.name != name) continue;
    found = true;
    rule.find(job, &warnings);
  }
  REQUIRE(found);
  return warnings;
}

ColumnSample Numbers(double least, double largest, DType dtype = DType::kFloat32) {
  ColumnSample column{.type = {"label", dtype, {}}, .numbers = 100};
  column.least = least;
  column.largest = largest;
  column.distinct = least == largest ? 1 : 2;
  return column;
}

JobFacts Output(std::string activation, int64_t units, std::string loss, bool from_logits = false,
                const ColumnSample* data = nullptr) {
  JobFacts job;
  job.outputs.push_back({.where = "job.yaml:7",
                         .activation = std::move(activation),
                         .units = units,
                         .loss = std::move(loss),
                         .from_logits = from_logits,
                         .label = "label",
                         .data = data});
  return job;
}

constexpr char kSparse[] = "SparseCategoricalCrossentropy";
constexpr char kOneHot[] = "CategoricalCrossentropy";
constexpr char kBinary[] = "BinaryCrossentropy";

TEST_CASE("rule units_for_labels: the largest label needs a unit") {
  const ColumnSample nine = Numbers(0, 9), negative = Numbers(-1, 3);
  const auto found = Find("units_for_labels", Output("softmax", 9, kSparse, false, &nine));
  REQUIRE(found.size() == 1);
  CHECK(found[0] ==
        "job.yaml:7: 9 units have the classes 0 to 8, and the label label has 9: give it 10 units");
  CHECK_THAT(Find("units_for_labels", Output("softmax", 9, kSparse, false, &negative)).at(0),
             Contains("the label label has -1, and classes count from 0"));
  CHECK(Find("units_for_labels", Output("softmax", 10, kSparse, false, &nine)).empty());
  CHECK(Find("units_for_labels", Output("softmax", 9, kOneHot, false, &nine)).empty());
  CHECK(Find("units_for_labels", Output("softmax", 9, kSparse)).empty());
}

TEST_CASE("rule softmax_of_one_unit") {
  CHECK_THAT(Find("softmax_of_one_unit", Output("softmax", 1, kBinary)).at(0),
             Contains("softmax over one unit is always 1"));
  CHECK(Find("softmax_of_one_unit", Output("softmax", 2, kSparse)).empty());
  CHECK(Find("softmax_of_one_unit", Output("sigmoid", 1, kBinary)).empty());
}

TEST_CASE("rule activation_with_logits") {
  for (const auto& [activation, loss] :
       {std::pair{"softmax", kSparse}, {"softmax", kOneHot}, {"sigmoid", kBinary}}) {
    CHECK_THAT(Find("activation_with_logits", Output(activation, 3, loss, true)).at(0),
               Contains("`from_logits: true`"));
    CHECK(Find("activation_with_logits", Output(activation, 3, loss, false)).empty());
  }
  CHECK(Find("activation_with_logits", Output("linear", 3, kSparse, true)).empty());
}

TEST_CASE("rule logits_without_activation") {
  CHECK_THAT(Find("logits_without_activation", Output("linear", 3, kSparse)).at(0),
             Contains("the activation is linear: use softmax, or `from_logits: true`"));
  CHECK_THAT(Find("logits_without_activation", Output("relu", 1, kBinary)).at(0),
             Contains("use sigmoid"));
  CHECK(Find("logits_without_activation", Output("linear", 3, kSparse, true)).empty());
  CHECK(Find("logits_without_activation", Output("softmax", 3, kSparse)).empty());
  CHECK(Find("logits_without_activation", Output("linear", 1, "MeanSquaredError")).empty());
  CHECK(Find("logits_without_activation", Output("", 3, kSparse)).empty());
}

TEST_CASE("rule sigmoid_with_categorical") {
  CHECK_THAT(Find("sigmoid_with_categorical", Output("sigmoid", 3, kSparse)).at(0),
             Contains("use softmax"));
  CHECK(Find("sigmoid_with_categorical", Output("sigmoid", 3, kBinary)).empty());
}

TEST_CASE("rule binary_labels") {
  const ColumnSample two = Numbers(0, 2), right = Numbers(0, 1);
  CHECK_THAT(Find("binary_labels", Output("sigmoid", 1, kBinary, false, &two)).at(0),
             Contains("needs labels from 0 to 1, and label has [0, 2]"));
  CHECK(Find("binary_labels", Output("sigmoid", 1, kBinary, false, &right)).empty());
}

TEST_CASE("rule one_class") {
  const ColumnSample one = Numbers(1, 1), two = Numbers(0, 1);
  CHECK_THAT(Find("one_class", Output("sigmoid", 1, kBinary, false, &one)).at(0),
             Contains("the label label is 1 in all 100 records of the sample"));
  CHECK(Find("one_class", Output("sigmoid", 1, kBinary, false, &two)).empty());
}

TEST_CASE("rule labels_out_of_reach") {
  const ColumnSample wide = Numbers(-3, 9), right = Numbers(0, 1);
  CHECK_THAT(
      Find("labels_out_of_reach", Output("sigmoid", 1, "MeanSquaredError", false, &wide)).at(0),
      Contains("sigmoid gives numbers from 0 to 1, and the label label has [-3, 9]"));
  CHECK_THAT(Find("labels_out_of_reach", Output("tanh", 1, "Huber", false, &wide)).at(0),
             Contains("from -1 to 1"));
  CHECK(Find("labels_out_of_reach", Output("tanh", 1, "Huber", false, &right)).empty());
  CHECK(Find("labels_out_of_reach", Output("linear", 1, "MeanSquaredError", false, &wide)).empty());
  CHECK(Find("labels_out_of_reach", Output("softmax", 9, kSparse, false, &wide)).empty());
}

TEST_CASE("rule metrics_of_logits") {
  JobFacts job = Output("linear", 1, "BinaryCrossentropy", /*from_logits=*/true);
  CHECK(Find("metrics_of_logits", job).empty());
  job.outputs[0].metrics_of_probabilities = {"NormalizedEntropy"};
  const auto found = Find("metrics_of_logits", job);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0], Contains("NormalizedEntropy reads probabilities") &&
                           Contains("give the metric `from_logits: true`"));
  job.outputs[0].from_logits = false;
  CHECK(Find("metrics_of_logits", job).empty());
}

TEST_CASE("rule accuracy_of_numbers") {
  ColumnSample fractions = Numbers(0, 1), whole = Numbers(0, 1);
  fractions.whole = false;
  const auto find = [](const ColumnSample& data, const char* metric, int64_t units) {
    JobFacts job = Output("linear", units, "MeanSquaredError", false, &data);
    job.outputs[0].metrics = {metric};
    return Find("accuracy_of_numbers", job);
  };
  CHECK_THAT(find(fractions, "accuracy", 1).at(0), Contains("label has fractions"));
  CHECK_THAT(find(whole, "SparseCategoricalAccuracy", 1).at(0), Contains("use binary_accuracy"));
  CHECK(find(whole, "accuracy", 1).empty());
  CHECK(find(fractions, "MeanAbsoluteError", 1).empty());
}

JobFacts Input(const ColumnSample& data, std::vector<std::string> readers, bool integers = false,
               std::string scaled_by = "") {
  JobFacts job;
  job.inputs.push_back({.where = "job.yaml:4",
                        .column = "pixels",
                        .integers = integers,
                        .readers = std::move(readers),
                        .data = &data,
                        .scaled_by = std::move(scaled_by)});
  return job;
}

TEST_CASE("rule normalization_without_moments") {
  JobFacts job;
  CHECK(Find("normalization_without_moments", job).empty());
  job.plain_normalizations.push_back("job.yaml:4: layer \"normalization\" (Normalization)");
  CHECK_THAT(Find("normalization_without_moments", job).at(0),
             Contains("its mean is 0 and its variance 1"));
}

TEST_CASE("rule numbers_not_finite: in inputs and labels") {
  ColumnSample data = Numbers(0, 1);
  CHECK(Find("numbers_not_finite", Input(data, {"Dense"})).empty());
  CHECK(Find("numbers_not_finite", Output("sigmoid", 1, kBinary, false, &data)).empty());
  data.missing = 7;
  CHECK_THAT(Find("numbers_not_finite", Input(data, {"Dense"})).at(0),
             Contains("the column pixels has 7 NaN and 0 infinite numbers among 107"));
  CHECK(Find("numbers_not_finite", Output("sigmoid", 1, kBinary, false, &data)).size() == 1);
}

TEST_CASE("rule integers_over_scaled_numbers") {
  ColumnSample fractions = Numbers(0, 1);
  fractions.whole = false;
  const ColumnSample cut = Numbers(0, 1, DType::kInt64), ids = Numbers(0, 99, DType::kInt64);
  CHECK_THAT(Find("integers_over_scaled_numbers", Input(fractions, {"Embedding"}, true)).at(0),
             Contains("integers cut off the fractions of pixels"));
  CHECK_THAT(Find("integers_over_scaled_numbers", Input(cut, {"Dense"}, false, "job.yaml:9")).at(0),
             Contains("pixels, which job.yaml:9 scales"));
  CHECK(Find("integers_over_scaled_numbers", Input(fractions, {"Dense"})).empty());
  CHECK(Find("integers_over_scaled_numbers", Input(ids, {"Embedding"}, true)).empty());
}

TEST_CASE("rule features_not_scaled") {
  const ColumnSample large = Numbers(0, 255), small = Numbers(-3, 3);
  CHECK_THAT(Find("features_not_scaled", Input(large, {"Dense"})).at(0),
             Contains("job.yaml:4: features are not scaled: pixels [0, 255]"));
  CHECK_THAT(Find("features_not_scaled", Input(large, {"BatchNormalization", "Conv2D"})).at(0),
             Contains("pixels"));
  CHECK(Find("features_not_scaled", Input(small, {"Dense"})).empty());
  for (const char* reader : {"Embedding", "Normalization", "Rescaling", "BatchNormalization"}) {
    CHECK(Find("features_not_scaled", Input(large, {reader})).empty());
  }
}

TEST_CASE("rule learning_rate_out_of_range") {
  const auto find = [](std::string optimizer, double rate) {
    JobFacts job;
    job.optimizers.push_back({"job.yaml:12", std::move(optimizer), rate});
    return Find("learning_rate_out_of_range", job);
  };
  CHECK(find("Adam", 1).at(0) ==
        "job.yaml:12: the learning rate 1 of Adam is very large: usual are 1e-07 to 0.1");
  CHECK_THAT(find("SGD", 1e-9).at(0), Contains("very small"));
  CHECK(find("Adam", 0.001).empty());
  CHECK(find("SGD", 0.1).empty());
  CHECK(find("Ours", 0.5).empty());
  CHECK(find("Ours", 100).size() == 1);
  CHECK(find("Adam", 0).empty());  // a schedule without an initial rate
}

TEST_CASE("each rule has a name of its own") {
  std::set<std::string_view> names;
  for (const JobRule& rule : JobRules()) CHECK(names.insert(rule.name).second);
  CHECK(names.size() == 15);
}

// ------------------------------------------------------------------ whole jobs

struct Job {
  std::string layers =
      "[{Input: {shape: [2], feature: xy}}, {Dense: {units: 2, activation: "
      "softmax}}]";
  std::string loss = "sparse_categorical_crossentropy";
  std::string optimizer = "adam";
  std::string transforms = "{columns: [x, y], output: xy}";
  std::string rows = "0.5,1,0\n0.25,-1,1\n1,0,1\n0,0,0\n";
};

absl::StatusOr<CheckedJob> Checked(const Job& job) {
  testing::TestDirectory dir;
  const std::string csv = dir.Write("data.csv", kLabels + job.rows);
  const std::string path = dir.Write(
      "job.yaml",
      fmt::format("name: small\nmodel: {{sequential: {}}}\ncompile: {{loss: {}, optimizer: {}}}\n"
                  "data:\n  batch_size: 2\n  train:\n    csv: {{path: {}}}\n    transforms: [{}]\n"
                  "    label: label\nfit: {{epochs: 1}}\n",
                  job.layers, job.loss, job.optimizer, csv, job.transforms));
  return CheckJob({.job = path});
}

TEST_CASE("a sound job has no warning, and its columns and first record are shown") {
  const auto checked = Checked({});
  INFO(std::string(checked.status().message()));
  REQUIRE(checked.ok());
  CHECK(checked->warnings.empty());
  CHECK(checked->Outcome(/*strict=*/true).ok());
  CHECK_THAT(checked->text,
             Contains("columns, in a sample of 4 of 4 records; a full batch has 2:\n") &&
                 Contains("[0, 1]") && Contains("float32[2]") && Contains("0.5 1\n"));
}

TEST_CASE("lists of different lengths are shown without their padding") {
  const Job job{.layers =
                    "[{Input: {dtype: int64, ragged: true, max_length: 3, feature: x}}, "
                    "{EmbeddingBag: {input_dim: 9, output_dim: 2}}, {Dense: {units: 2, "
                    "activation: softmax}}]",
                .transforms = "",
                .rows = ",1,0\n7|2,-1,1\n1|2|3,0,1\n3,0,0\n"};
  const auto checked = Checked(job);
  INFO(std::string(checked.status().message()));
  REQUIRE(checked.ok());
  CHECK_THAT(checked->text, Contains("int64, lists up to 3  [1, 7]") &&
                                Contains("an empty list\n") && !Contains("-9.2"));
}

TEST_CASE("check names tables without bounds beside the memory") {
  const std::string start =
      "[{Input: {shape: [1], dtype: int64, feature: x}}, "
      "{DynamicEmbedding: {name: t, output_dim: 4";
  const std::string end = "}}, Flatten, {Dense: {units: 2, activation: softmax}}]";
  Job job{
      .layers = start + end, .optimizer = "adagrad", .transforms = "", .rows = "5,1,0\n7,1,1\n"};
  auto checked = Checked(job);
  INFO(std::string(checked.status().message()));
  REQUIRE(checked.ok());
  CHECK_THAT(checked->text, Contains("the table t/embeddings has no bounds: the memory does not "
                                     "count it, at 32 B of values and slots for each row"));
  job.layers = start + ", max_rows: 1000" + end;
  checked = Checked(job);
  INFO(std::string(checked.status().message()));
  REQUIRE(checked.ok());
  CHECK_THAT(checked->text, Contains("the memory counts its `max_rows` of 1,000, at 32 B"));
}

TEST_CASE("facts of real jobs reach the rules") {
  const auto only = [](const Job& job, std::string_view what) {
    const auto checked = Checked(job);
    INFO(std::string(checked.status().message()));
    REQUIRE(checked.ok());
    INFO(fmt::format("{}", fmt::join(checked->warnings, "\n")));
    REQUIRE(checked->warnings.size() == 1);
    CHECK_THAT(checked->warnings[0], Contains(std::string(what)));
    CHECK_THAT(checked->text, Contains("warning: " + checked->warnings[0]));
    CHECK(ExitCodeOf(checked->Outcome(/*strict=*/true)) == ExitCode::kData);
    CHECK(checked->Outcome(/*strict=*/false).ok());
  };
  const std::string input = "{Input: {shape: [2], feature: xy}}";
  only({.layers = "[" + input + ", {Dense: {units: 2}}]"}, "the activation is linear");
  only({.layers = "[" + input + ", {Dense: {units: 2}}, {Activation: {activation: sigmoid}}]"},
       "use softmax");
  only({.layers = "[" + input + ", {Dense: {units: 2}}, Softmax, {Reshape: {target_shape: [2]}}]",
        .loss = "{SparseCategoricalCrossentropy: {from_logits: true}}"},
       "applies the function again");
  only({.layers = "[" + input + ", {Dense: {units: 1, activation: softmax}}]",
        .loss = "binary_crossentropy"},
       "always 1");
  only({.optimizer = "{Adam: {learning_rate: 5}}"}, "job.yaml:3: the learning rate 5 of Adam");
  only({.optimizer = "{SGD: {learning_rate: {ExponentialDecay: {initial_learning_rate: 50, "
                     "decay_steps: 10, decay_rate: 0.5}}}}"},
       "the learning rate 50 of SGD");
  only({.rows = "0.5,1,0\n0.25,-1,0\n1,0,0\n0,0,0\n"}, "is 0 in all 4 records");
  only({.rows = "500,1,0\n0.25,-1,1\n1,0,1\n0,0,0\n"}, "xy [-1, 500]");
  only({.layers = "[" + input + ", {Dense: {units: 1, activation: sigmoid}}]",
        .loss = "binary_crossentropy",
        .rows = "0.5,1,0\n0.25,-1,2\n1,0,1\n0,0,0\n"},
       "needs labels from 0 to 1");
}

}  // namespace
}  // namespace cohort
