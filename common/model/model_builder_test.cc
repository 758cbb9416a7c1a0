#include "common/model/model_builder.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "common/data/dataset.h"
#include "common/data/list_padding.h"
#include "common/graph/mixed_precision.h"
#include "common/graph/op_registry.h"
#include "common/graph/program_proto.h"
#include "common/graph/validate.h"
#include "common/model/data_check.h"
#include "common/model/device_check.h"
#include "common/model/layer_graph.h"
#include "common/schema/class_schema.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/golden_test_cases.h"
#include "common/testing/status_test_util.h"
#include "proto/config.pb.h"

namespace cohort {
namespace {

// A job of these layers (YAML under `model:`) and this loss, over columns that every case shares.
absl::StatusOr<BuiltModel> Build(const std::string& model, const std::string& compile,
                                 const std::vector<FeatureType>& features) {
  const std::string yaml = "model:\n" + model + "compile: {" + compile +
                           "}\ndata: {batch_size: 8, train: {csv: {path: a}, label: y}}\n";
  auto job = ParseJob(yaml, "job.yaml");
  if (!job.ok()) return job.status();
  return BuildModel(job->spec, features, &job->lines);
}

const std::vector<FeatureType> kFloats = {{"x", DType::kFloat32, {4}}, {"y", DType::kFloat32, {}}};
const std::vector<FeatureType> kIds = {{"ids", DType::kInt64, {3}}, {"y", DType::kInt64, {}}};

int CountOps(const Program& program, std::string_view op) {
  return static_cast<int>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                        [op](const Node& node) { return node.op == op; }));
}

std::vector<std::string> VariableNames(const BuiltModel& model) {
  std::vector<std::string> names;
  for (const auto& variable : model.variables) names.push_back(variable.name());
  return names;
}

TEST_CASE("a perceptron: names, initializers, pushes and metrics as in Keras") {
  const auto model = Build(R"(
  sequential:
    - Dense: {units: 8, activation: relu}
    - Dropout: {rate: 0.2}
    - Dense: {units: 1, activation: sigmoid}
)",
                           "loss: bce, metrics: [accuracy]", kFloats);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) ==
        std::vector<std::string>{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"});
  CHECK(model->variables[0].initializer().class_name() == "GlorotUniform");
  CHECK(model->variables[0].initializer().fan_in() == 4);
  CHECK(model->variables[0].initializer().fan_out() == 8);
  CHECK(model->variables[1].initializer().class_name() == "Zeros");
  CHECK(model->features == std::vector<std::string>{"x", "y"});
  REQUIRE(model->optimizers.size() == 1);
  CHECK(model->optimizers[0].rule().class_name() == "RMSprop");
  CHECK(model->train.symbols[0].name == "batch");
  CHECK(model->train.symbols[0].capacity == 8);
  REQUIRE(model->train.pushes.size() == 4);
  REQUIRE(model->train.metrics.size() == 2);
  CHECK(model->train.metrics[0].name == "loss");
  CHECK(model->train.metrics[1].name == "accuracy");
  CHECK(model->train.weight != kNoValue);
  CHECK(CountOps(model->train, "dropout") == 1);
  CHECK(CountOps(model->eval, "dropout") == 0);
  CHECK(model->eval.pushes.empty());
  CHECK(model->eval.weight == kNoValue);
  CHECK(model->eval.arguments.size() == 2);
  CHECK(model->predict.arguments.size() == 1);
  CHECK(model->predict.outputs[0].name == "dense_1");
}

// The string "crossentropy" chooses by the shapes of label and prediction.
TEST_CASE("the loss and the metric crossentropy are those of the shapes") {
  struct Case {
    const char* units;
    std::vector<int64_t> label;
    const char* chosen;
  };
  const std::vector<Case> cases = {{"1", {}, "binary_crossentropy"},
                                   {"1", {1}, "binary_crossentropy"},
                                   {"3", {}, "sparse_categorical_crossentropy"},
                                   {"3", {1}, "sparse_categorical_crossentropy"},
                                   {"3", {3}, "categorical_crossentropy"}};
  for (const Case& c : cases) {
    for (const char* from_logits : {"", ", from_logits: true"}) {
      INFO(c.units << " " << c.label.size() << " " << c.chosen << from_logits);
      const std::vector<FeatureType> features = {{"x", DType::kFloat32, {4}},
                                                 {"y", DType::kFloat32, c.label}};
      const auto with = [&](const std::string& name) {
        return Build(
            fmt::format("  sequential:\n    - Dense: {{units: {}}}\n", c.units),
            fmt::format("loss: {}, metrics: [{{{}: {{name: m}}}}]{}", name, name, from_logits),
            features);
      };
      const auto chosen = with("crossentropy");
      const auto explicitly = with(c.chosen);
      REQUIRE(chosen.status().message() == "");
      REQUIRE(explicitly.status().message() == "");
      CHECK(Fingerprint(chosen->train) == Fingerprint(explicitly->train));
      CHECK(Fingerprint(chosen->eval) == Fingerprint(explicitly->eval));
    }
  }
}

// A job of these keys, over kFloats.
absl::StatusOr<BuiltModel> BuildMixed(const std::string& precision) {
  auto job = ParseJob("mixed_precision: " + precision + R"(
model:
  sequential:
    - Dense: {units: 8, activation: relu}
    - Dense: {units: 4, dtype: float32}
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: bce, metrics: [AUC], optimizer: {SGD: {clipvalue: 1}}}
data: {batch_size: 8, train: {csv: {path: a}, label: y}}
)",
                      "job.yaml");
  if (!job.ok()) return job.status();
  return BuildModel(job->spec, kFloats, &job->lines);
}

int CountRounded(const Program& program, Precision precision, std::string_view layer) {
  return static_cast<int>(
      std::count_if(program.nodes.begin(), program.nodes.end(), [&](const Node& node) {
        return node.op == "matmul" && node.name == layer && PrecisionOf(node) == precision;
      }));
}

TEST_CASE("mixed precision rounds the products of layers that are not float32") {
  const auto model = BuildMixed("bfloat16");
  REQUIRE(model.status().message() == "");
  CHECK(CountRounded(model->train, Precision::kBfloat16, "dense") == 2);
  CHECK(CountRounded(model->train, Precision::kBfloat16, "dense_2") == 3);
  CHECK(CountRounded(model->train, Precision::kFloat32, "dense_1") == 3);
  // The metric has a product, too.
  const auto exact =
      std::count_if(model->train.nodes.begin(), model->train.nodes.end(), [](const Node& node) {
        return node.op.ends_with("matmul") && PrecisionOf(node) == Precision::kFloat32;
      });
  CHECK(exact > 3);
  for (const Program* program : {&model->eval, &model->predict}) {
    CHECK(CountRounded(*program, Precision::kBfloat16, "dense") == 1);
    CHECK(CountRounded(*program, Precision::kFloat32, "dense_1") == 1);
  }
  CHECK(model->train.arguments.size() == 2);
  CHECK(!model->train.loss_scaling.enabled());
}

TEST_CASE("in float16 the loss scale is the last argument of the training program") {
  const auto model = BuildMixed("{dtype: float16, dynamic_growth_steps: 7}");
  REQUIRE(model.status().message() == "");
  CHECK(model->features == std::vector<std::string>{"x", "y"});
  REQUIRE(model->train.arguments.size() == 3);
  CHECK(model->train.arguments[2].name == "loss_scale");
  CHECK(model->train.loss_scaling == LossScaling{.initial = 32768, .growth_steps = 7});
  CHECK(model->eval.arguments.size() == 2);
  CHECK(ValidateProgram(model->train).ok());
  const auto fixed = BuildMixed("{dtype: float16, loss_scale: 64}");
  REQUIRE(fixed.status().message() == "");
  CHECK(fixed->train.loss_scaling == LossScaling{.initial = 64, .growth_steps = 0});
  CHECK(BuildMixed("float32")->train.loss_scaling == LossScaling{});
}

TEST_CASE("optimizers are chosen by the names of variables; frozen layers get no gradient") {
  constexpr char kModel[] = R"(
  sequential:
    - Dense: {units: 8, trainable: false}
    - Dense: {units: 4}
    - Dense: {units: 1, activation: sigmoid}
)";
  const auto model = Build(kModel,
                           "loss: bce, optimizers: [{variables: 'dense_1/*', optimizer: Ftrl}, "
                           "{variables: '*', optimizer: {Adam: {learning_rate: 0.1}}}]",
                           kFloats);
  REQUIRE(model.status().message() == "");
  REQUIRE(model->optimizers.size() == 2);
  CHECK(model->optimizers[0].rule().class_name() == "Ftrl");
  CHECK(model->optimizers[1].rule().class_name() == "Adam");
  std::vector<uint32_t> chosen;
  std::vector<bool> trainable;
  for (const v1::VariableSpec& variable : model->variables) {
    chosen.push_back(variable.optimizer());
    trainable.push_back(variable.trainable());
  }
  CHECK(chosen == std::vector<uint32_t>{0, 0, 0, 0, 1, 1});
  CHECK(trainable == std::vector<bool>{false, false, true, true, true, true});
  CHECK(model->train.pushes.size() == 4);
  CHECK(model->summary.params - model->summary.frozen_params == 8 * 4 + 4 + 4 + 1);

  const auto problem = [&](const std::string& optimizers) {
    return std::string(
        Build(kModel, "loss: bce, optimizers: " + optimizers, kFloats).status().message());
  };
  CHECK_THAT(problem("[{variables: 'dense_1/*', optimizer: SGD}]"),
             Catch::Contains("variable \"dense_2/kernel\" matches none of the patterns dense_1/*"));
  CHECK_THAT(
      problem("[{variables: 'dens_1/*', optimizer: SGD}, {variables: '*', optimizer: SGD}]"),
      Catch::Contains("no variable matches \"dens_1/*\"; there are dense/kernel, dense/bias"));
}

TEST_CASE("programs survive the wire") {
  const auto model = Build("  sequential: [{Dense: {units: 1}}]\n", "loss: mse", kFloats);
  REQUIRE(model.ok());
  for (const Program* program : {&model->train, &model->eval, &model->predict}) {
    CHECK(ValidateProgram(*program).ok());
    CHECK(Fingerprint(*program).size() == 32);
  }
  CHECK(Fingerprint(model->train) != Fingerprint(model->eval));
}

TEST_CASE("an embedding pulls and pushes only the rows of its batch") {
  const auto model = Build(R"(
  sequential:
    - Input: {shape: [3], dtype: int64}
    - Embedding: {input_dim: 100, output_dim: 5}
    - GlobalAveragePooling1D
    - Dense: {units: 1, activation: sigmoid}
)",
                           "loss: binary_crossentropy", kIds);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) ==
        std::vector<std::string>{"embedding/embeddings", "dense/kernel", "dense/bias"});
  CHECK(model->variables[0].row_reads());
  CHECK(model->variables[0].initializer().class_name() == "RandomUniform");
  CHECK(model->variables[0].initializer().minval() == -0.05);
  CHECK(CountOps(model->train, "read_rows") == 1);
  CHECK(CountOps(model->train, "read") == 2);
  const Push& push = model->train.pushes[0];
  REQUIRE(push.keys != kNoValue);
  CHECK(TypeToString(model->train.type(push.keys)) == "int64[s2<=24]");
  CHECK(TypeToString(model->train.type(push.value)) == "float32[s2<=24, 5]");
}

TEST_CASE("cross entropies start from the logits of a sigmoid or softmax, as Keras' do") {
  const struct {
    const char* layers;
    const char* compile;
    const char* op;
    bool fused;
  } cases[] = {
      {"[{Dense: {units: 1, activation: sigmoid}}]", "loss: bce", "sigmoid_cross_entropy", true},
      {"[{Dense: {units: 1}}, {Activation: {activation: sigmoid}}]", "loss: bce",
       "sigmoid_cross_entropy", true},
      {"[{Dense: {units: 1, activation: sigmoid}}, {Activation: {activation: linear}}]",
       "loss: bce", "sigmoid_cross_entropy", true},
      {"[{Dense: {units: 1, activation: sigmoid}}, Flatten]", "loss: bce", "sigmoid_cross_entropy",
       false},
      {"[{Dense: {units: 1, activation: tanh}}]", "loss: bce", "sigmoid_cross_entropy", false},
      {"[{Dense: {units: 1}}]", "loss: bce, from_logits: true", "sigmoid_cross_entropy", true},
      {"[{Dense: {units: 5, activation: softmax}}]", "loss: sparse_categorical_crossentropy",
       "clip", false},
      {"[{Dense: {units: 5}}]", "loss: sparse_categorical_crossentropy, from_logits: true", "clip",
       false},
      {"[{Dense: {units: 5, activation: relu}}]", "loss: sparse_categorical_crossentropy", "clip",
       true},
  };
  for (const auto& c : cases) {
    INFO(c.layers << " " << c.compile);
    const auto model = Build(std::string("  sequential: ") + c.layers + "\n", c.compile, kFloats);
    REQUIRE(model.status().message() == "");
    CHECK((CountOps(model->eval, c.op) > 0) == c.fused);
  }
}

TEST_CASE("accuracy is resolved by the shapes of label and prediction") {
  const auto binary = Build("  sequential: [{Dense: {units: 1, activation: sigmoid}}]\n",
                            "loss: bce, metrics: [accuracy]", kFloats);
  REQUIRE(binary.ok());
  CHECK(CountOps(binary->eval, "greater") == 1);
  CHECK(CountOps(binary->eval, "argmax") == 0);
  const auto sparse = Build("  sequential: [{Dense: {units: 5, activation: softmax}}]\n",
                            "loss: SparseCategoricalCrossentropy, metrics: [accuracy]", kFloats);
  REQUIRE(sparse.ok());
  CHECK(CountOps(sparse->eval, "argmax") == 1);
  const std::vector<FeatureType> one_hot = {{"x", DType::kFloat32, {4}},
                                            {"y", DType::kFloat32, {5}}};
  const auto categorical =
      Build("  sequential: [{Dense: {units: 5}}]\n", "loss: mse, metrics: [accuracy]", one_hot);
  REQUIRE(categorical.status().message() == "");
  CHECK(CountOps(categorical->eval, "argmax") == 2);
}

TEST_CASE("metrics have accumulators and a finalizer") {
  const auto model = Build("  sequential: [{Dense: {units: 1, activation: sigmoid}}]\n",
                           "loss: bce, metrics: [AUC, precision, RootMeanSquaredError]", kFloats);
  REQUIRE(model.status().message() == "");
  const std::vector<MetricPartial>& metrics = model->eval.metrics;
  REQUIRE(metrics.size() == 4);
  CHECK(metrics[0].finalizer == nullptr);  // the mean loss
  CHECK(metrics[1].name == "AUC");
  REQUIRE(metrics[1].accumulators.size() == 2);
  CHECK(TypeToString(model->eval.type(metrics[1].accumulators[0].value)) == "float32[200]");
  CHECK(Config(*metrics[1].finalizer).String("curve") == "ROC");
  CHECK(metrics[2].name == "precision");
  CHECK(metrics[2].finalizer == nullptr);
  CHECK(metrics[3].finalizer->class_name() == "RootMean");
}

TEST_CASE("metrics that do not fit the label or the prediction are refused") {
  const auto problem = [](std::string_view metric) {
    const auto model =
        Build("  sequential: [{Dense: {units: 3, activation: softmax}}]\n",
              fmt::format("loss: sparse_categorical_crossentropy, metrics: [{}]", metric), kFloats);
    return std::string(model.status().message());
  };
  CHECK(problem("AUC") ==
        "job.yaml:3: the label is float32[batch<=8], but the prediction is float32[batch<=8, 3]");
  CHECK(problem("R2Score") ==
        "job.yaml:3: the label is float32[batch<=8], but the prediction is float32[batch<=8, 3]");
}

TEST_CASE("SwapEMAWeights lets the evaluation read averages, which an optimizer must keep") {
  const auto job_with = [](const std::string& optimizer, const std::string& callbacks) {
    auto job =
        ParseJob("model: {sequential: [{Dense: {units: 1}}]}\ncompile: {loss: mse, " + optimizer +
                     "}\ndata: {batch_size: 8, train: {csv: {path: a}, label: y}}\n"
                     "fit: {callbacks: [" +
                     callbacks + "]}\n",
                 "job.yaml");
    return job.ok() ? BuildModel(job->spec, kFloats, &job->lines)
                    : absl::StatusOr<BuiltModel>(job.status());
  };
  const std::string averages = "optimizer: {Adam: {use_ema: true}}";
  const auto reads = [](const Program& program) {
    return std::ranges::count_if(program.variables, &VariableDecl::reads_average);
  };
  const auto swapped = job_with(averages, "SwapEMAWeights");
  REQUIRE(swapped.status().message() == "");
  CHECK(reads(swapped->train) == 0);
  CHECK(reads(swapped->eval) == 2);
  v1::Program stored;
  ProgramToProto(swapped->eval, &stored);
  CHECK(reads(*ProgramFromProto(stored)) == 2);
  CHECK(reads(job_with(averages, "TerminateOnNaN")->eval) == 0);
  CHECK(job_with("optimizer: adam", "TerminateOnNaN, SwapEMAWeights").status().message() ==
        "job.yaml:4: SwapEMAWeights needs the averages of an optimizer: set `use_ema: true` in its "
        "arguments, or leave the callback out");
  // One of several is enough, as in Keras.
  CHECK(job_with("optimizers: [{variables: \"*/bias\", optimizer: {SGD: {use_ema: true}}}, "
                 "{variables: \"*\", optimizer: sgd}]",
                 "SwapEMAWeights")
            .ok());
}

TEST_CASE("a metric with several numbers reports each, and callbacks may watch one") {
  const auto job_with = [](const std::string& monitor) {
    auto job = ParseJob(R"(
model: {sequential: [{Input: {shape: [4], feature: x}}, {Dense: {units: 3}}]}
compile: {loss: mse, metrics: [{F1Score: {}}, {Precision: {thresholds: [0.2, 0.8]}}]}
data: {batch_size: 8, train: {csv: {path: a}, label: y}}
fit: {callbacks: [{EarlyStopping: {monitor: )" +
                            monitor + "}}]}\n",
                        "job.yaml");
    const std::vector<FeatureType> features = {{"x", DType::kFloat32, {4}},
                                               {"y", DType::kFloat32, {3}}};
    return job.ok() ? BuildModel(job->spec, features, &job->lines)
                    : absl::StatusOr<BuiltModel>(job.status());
  };
  const auto model = job_with("f1_score_2");
  REQUIRE(model.status().message() == "");
  std::vector<std::string> names;
  for (const MetricPartial& metric : model->train.metrics) names.push_back(metric.name);
  CHECK(names == std::vector<std::string>{"loss", "f1_score_0", "f1_score_1", "f1_score_2",
                                          "precision_0", "precision_1"});
  CHECK(job_with("f1_score_3").status().message() ==
        "job.yaml:5: the model reports no \"f1_score_3\"; it reports loss, f1_score_0, f1_score_1, "
        "f1_score_2, precision_0, precision_1");
  CHECK(absl::StrContains(job_with("loss_1").status().message(), "which this job does not report"));
}

TEST_CASE("a weighted metric has a name of its own") {
  const auto named =
      Build("  sequential: [{Input: {shape: [4], feature: x}}, {Dense: {units: 1}}]\n",
            "loss: mse, weighted_metrics: [mae], metrics: [mae]", kFloats);
  REQUIRE(named.status().message() == "");
  CHECK(named->features == std::vector<std::string>{"x", "y"});
  REQUIRE(named->train.metrics.size() == 3);
  CHECK(named->train.metrics[2].name == "weighted_mae");
}

TEST_CASE("weights that do not fit are refused with their line") {
  const auto error = [](const std::string& data, const std::string& fit,
                        const std::string& compile = "loss: mse") {
    const std::string yaml =
        "model: {sequential: [{Input: {shape: [4], feature: x}}, {Dense: {units: 3}}]}\ncompile: "
        "{" +
        compile + "}\ndata: {batch_size: 8, train: {csv: {path: a}, label: y" + data +
        "}}\nfit: {" + fit + "}\n";
    auto job = ParseJob(yaml, "job.yaml");
    if (!job.ok()) return std::string(job.status().message());
    const std::vector<FeatureType> features = {{"x", DType::kFloat32, {4}},
                                               {"w", DType::kFloat32, {}},
                                               {"pair", DType::kFloat32, {2}},
                                               {"y", DType::kFloat32, {3}}};
    return std::string(BuildModel(job->spec, features, &job->lines).status().message());
  };
  CHECK(error(", sample_weight: w", "epochs: 1") == "");
  CHECK(error(", sample_weight: x", "epochs: 1") ==
        "job.yaml:1: layer \"input_layer\" (Input): \"x\" is the sample weight");
  CHECK(error("", "class_weight: {0: 1.0, 2: 3.5}") == "");
  CHECK_THAT(error("", "class_weight: {2: -1}"),
             Catch::EndsWith("the weight of class 2 is -1, and must not be negative"));
  CHECK(error("", "class_weight: {cat: 1.0}") ==
        "job.yaml:4: `fit.class_weight`: a class is a number of 0 to 1048575, not \"cat\"");
  CHECK(
      error(", sample_weight: weight", "epochs: 1") ==
      "job.yaml:3: the sample weight \"weight\" is not a column of the data; its columns are x, w, "
      "pair");
  CHECK(error(", sample_weight: pair", "epochs: 1") ==
        "job.yaml:2: the sample weight is float32[batch<=8, 2], and what it weighs is "
        "float32[batch<=8]: it must have the same axes, or leave out the last ones");
  CHECK(error(", sample_weight: w", "class_weight: {1: 2}") ==
        "job.yaml:4: class_weight and `data.train.sample_weight` exclude each other: multiply the "
        "column by the weights of the classes");
  CHECK(
      error("", "epochs: 1", "loss: {mse: {reduction: none}}") ==
      "job.yaml:2: MeanSquaredError: the reduction none leaves a loss for each record, and a step "
      "needs one number: leave out `reduction`");
}

TEST_CASE("a validation set may go without the weights of the training set") {
  const auto columns = [](const std::string& validation) {
    auto job = ParseJob(
        "model: {sequential: [{Input: {shape: [4], feature: x}}, {Dense: {units: 1}}]}\n"
        "compile: {loss: mse}\n"
        "data: {batch_size: 8, train: {csv: {path: a}, label: y, sample_weight: w}, validation: "
        "{skip: 9" +
            validation + "}}\n",
        "job.yaml");
    REQUIRE(job.status().message() == "");
    const std::vector<FeatureType> features = {
        {"x", DType::kFloat32, {4}}, {"w", DType::kFloat32, {}}, {"y", DType::kFloat32, {}}};
    const auto model = BuildModel(job->spec, features, &job->lines);
    REQUIRE(model.status().message() == "");
    CHECK(model->features == std::vector<std::string>{"x", "y", "w"});
    return model->eval_features;
  };
  CHECK(columns("") == std::vector<std::string>{"x", "y", "w"});
  CHECK(columns(", sample_weight: null") == std::vector<std::string>{"x", "y"});
}

TEST_CASE("a functional model takes its arguments from the columns that its Inputs name") {
  const std::vector<FeatureType> features = {{"y", DType::kFloat32, {}},
                                             {"age", DType::kFloat32, {}},
                                             {"job", DType::kInt64, {}},
                                             {"unused", DType::kUint8, {7}}};
  const auto model = Build(R"(
  name: census
  functional:
    - Input: {name: job}
    - Input: {name: years, feature: age, shape: [1]}
    - Embedding: {inputs: job, input_dim: 10, output_dim: 4}
    - Flatten: {inputs: embedding}
    - Concatenate: {inputs: [flatten, years]}
    - Dense: {inputs: concatenate, units: 1, activation: sigmoid}
)",
                           "loss: bce", features);
  REQUIRE(model.status().message() == "");
  CHECK(model->features == std::vector<std::string>{"job", "age", "y"});
  CHECK(TypeToString(model->train.type(model->train.arguments[0].value)) == "int64[batch<=8]");
  CHECK(model->summary.rows[4].connected_to == std::vector<std::string>{"flatten", "years"});
  CHECK(model->summary.params == 40 + 6);
  CHECK_FALSE(model->summary.sequential);
}

TEST_CASE("bytes become floats, and float64 models are float64 throughout") {
  const std::vector<FeatureType> images = {{"image", DType::kUint8, {2, 2}},
                                           {"y", DType::kUint8, {}}};
  const auto model = Build("  dtype: float64\n  sequential: [Flatten, {Dense: {units: 3}}]\n",
                           "loss: {SparseCategoricalCrossentropy: {from_logits: true}}", images);
  REQUIRE(model.status().message() == "");
  CHECK(model->variables[0].dtype() == v1::FLOAT64);
  CHECK(model->train.type(model->train.weight).dtype == DType::kFloat64);
  CHECK(CountOps(model->train, "cast") == 3);  // image, label, and the one-hot of the gradient
}

TEST_CASE("functions of keras.ops are layers of a job file") {
  const auto model = Build(R"(
  functional:
    - Input: {name: x}
    - Dense: {name: d, inputs: x, units: 4}
    - ops.split: {inputs: d, indices_or_sections: 2, axis: 1}
    - ops.part: {inputs: split, index: 1}
    - ops.subtract: {inputs: part, x1: 1}
    - ops.multiply: {inputs: [split, subtract]}
    - ops.array: {value: [[1, 2]]}
    - ops.where: {inputs: [multiply, array], x1: 0}
    - ops.mean: {inputs: where, axis: -1, keepdims: true}
)",
                           "loss: mse", kFloats);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) == std::vector<std::string>{"d/kernel", "d/bias"});
  CHECK(model->predict.outputs[0].name == "mean");
}

TEST_CASE("errors of functions of keras.ops name the layer and its line") {
  const auto error_of = [](const std::string& layer) {
    const auto model = Build("\n  functional:\n    - Input: {name: x}\n    - " + layer + "\n",
                             "loss: mse", kFloats);
    return std::string(model.status().message());
  };
  const struct {
    const char* layer;
    const char* error;
  } kCases[] = {
      {"ops.meen: {inputs: x}", "there is no operation \"ops.meen\""},
      {"ops.mean: {inputs: x, axes: 1}", "ops.mean has no argument \"axes\""},
      {"ops.mean: {inputs: x, axis: 2}",
       "job.yaml:5: layer \"mean\" (ops.mean): there is no axis 2 among 2"},
      {"ops.add: {inputs: x}", "its argument x2 is neither an input nor a number"},
      {"ops.add: {inputs: [x, x], x1: 1}", "it has 3 inputs and numbers"},
      {"ops.reshape: {inputs: x, newshape: [-1, 3]}", "has no whole number of rows"},
      {"ops.get_item: {inputs: x, key: \"0\"}", "axis 0 is the batch"},
      {"ops.get_item: {inputs: x, key: \":, 9\"}", "axis 1 has 4 elements, and none at 9"},
      {"ops.get_item: {inputs: x, key: \":, a\"}", "key: \"a\" is no place"},
      {"ops.get_item: {inputs: x, key: \":, ..., ...\"}", "has two ellipses"},
      {"ops.slice: {inputs: x, start_indices: [0, 1], shape: [2, 9000000000000000]}",
       "axis 1 has 4 elements, and no 9000000000000000 of them begin at 1"},
      {"ops.split: {inputs: x, indices: [1, 9000000000000000], axis: 1}",
       "axis 1 has 4 elements, and no part ends at 9000000000000000"},
      {"ops.split: {inputs: x, indices_or_sections: 3, axis: 1}", "do not make 3 equal parts"},
      {"ops.part: {inputs: x, index: 1}", "its input has 1 outputs, and none at 1"},
      {"ops.einsum: {inputs: x, subscripts: \"ab,bc->ac\"}", "is not for 1 operands"},
      {"ops.sort: {inputs: x}", "it needs an axis"},
      {"ops.argsort: {inputs: x, axis: 0}", "axis 0 is the batch, whose records"},
      {"ops.top_k: {inputs: x, k: 5}", "k is 5, and its input"},
      {"ops.take_along_axis: {inputs: [x, x], axis: 0}", "axis 0 is the batch, whose records"},
      {"ops.add_along_axis: {inputs: [x, x], axis: 1}", "it needs values"},
      {"ops.segment_sum: {inputs: [x, x], num_segments: 2}", "would add up the records of a batch"},
      {"ops.scatter: {inputs: [x, x], shape: [3]}", "would add up the records of a batch"},
      {"ops.cumprod: {inputs: x, axis: 0}", "does not multiply the records of a batch"},
      {"ops.median: {inputs: x}", "is not supported yet"},
  };
  for (const auto& c : kCases) {
    INFO(c.layer);
    CHECK_THAT(error_of(c.layer), Catch::Contains(c.error));
  }
}

TEST_CASE("a mask that is no layer above is refused") {
  const auto model = Build(R"(
  functional:
    - Input: {name: ids}
    - Embedding: {inputs: ids, input_dim: 9, output_dim: 4, mask_zero: true}
    - Dense: {name: d, inputs: embedding, units: 4}
    - Conv1D: {name: dropped, inputs: d, filters: 4, kernel_size: 1}
    - GlobalAveragePooling1D: {name: a, inputs: dropped}
    - GlobalAveragePooling1D: {name: b, inputs: dropped, masks: given}
    - Add: {inputs: [a, b]}
)",
                           "loss: mse", kIds);
  CHECK_THAT(std::string(model.status().message()),
             Catch::Contains("no layer before it has the name \"given\""));
}

TEST_CASE("models that make no sense") {
  const char* const models[] = {
      "  sequential: [Flatten, {Reshape: {target_shape: [3]}}]\n",
      "  sequential: [{Dense: {units: 0}}]\n",
      "  sequential: [{Dropout: {rate: 1.5}}]\n",
      "  sequential: [GlobalAveragePooling1D]\n",
      "  sequential: [{Input: {shape: [5]}}, Flatten]\n",
      "  sequential: [{Input: {feature: z}}, Flatten]\n",
      "  sequential: [{Input: {feature: y}}, Flatten]\n",
      "  functional: [{Input: {name: x}}, {Dense: {inputs: input, units: 1}}]\n",
      "  functional: [{Input: {name: x}}, {Dense: {inputs: [x, x], units: 1}}]\n",
      "  functional: [{Input: {name: x}}, {Flatten: {name: x, inputs: x}}]\n",
      R"(  functional: [{Input: {name: x}}, {Flatten: {inputs: x}}, {Dense: {inputs: x, units: 1}}]
)",
      "  functional: [{Input: {name: x}}, {Concatenate: {inputs: [x, x], axis: 0}}]\n",
      "  sequential: [{Dense: {units: 3}}]\n",
      "  outputs: [flat]\n  sequential: [Flatten]\n",
  };
  testing::GoldenCases observed;
  for (const char* const text : models) {
    const auto model = Build(text, "loss: mse", kFloats);
    INFO(text);
    CHECK_FALSE(model.ok());
    observed.emplace_back(text, std::string(model.status().message()));
  }
  CHECK(testing::DifferenceFromGolden("common/model/testdata/model_errors.txt", observed) == "");
}

TEST_CASE("a layer's name that is too long, and computed ids, are refused with their line") {
  const auto named =
      Build("  sequential:\n    - Flatten\n    - Dense: {units: 1, name: " + std::string(257, 'n') +
                "}\n",
            "loss: mse", kFloats);
  CHECK(named.status().message() ==
        "job.yaml:4: the name of a layer has at most 256 bytes, this one 257: \"" +
            std::string(40, 'n') + "...\"");
  const auto computed = Build(
      "  sequential:\n    - Dense: {units: 1}\n    - Flatten\n"
      "    - Embedding: {input_dim: 9, output_dim: 2}\n",
      "loss: mse", kFloats);
  CHECK(computed.status().message() ==
        "job.yaml:5: layer \"embedding\" (Embedding): its ids come from layer \"flatten\", which "
        "depends on weights; they must come from the data");
}

TEST_CASE("columns' names are shown as a terminal may have them") {
  const std::vector<FeatureType> columns = {{"x\x1b[2J", DType::kFloat32, {4}},
                                            {"z", DType::kFloat32, {}}};
  CHECK_THAT(
      std::string(
          Build("  sequential: [{Dense: {units: 1}}]\n", "loss: mse", columns).status().message()),
      Catch::Contains("is not a column of the data; its columns are x\\x1b[2J, z"));
}

const std::vector<FeatureType> kTwoIds = {
    {"first", DType::kInt64, {3}}, {"second", DType::kInt64, {2}}, {"y", DType::kFloat32, {}}};

TEST_CASE("the calls of a shared embedding pull its rows once, under the keys of all") {
  const auto model = Build(R"(
  functional:
    - Input: {name: first}
    - Embedding: {name: table, inputs: first, input_dim: 9, output_dim: 4}
    - Input: {name: second}
    - Flatten: {name: flat, inputs: second}
    - Embedding: {name: again, inputs: flat, shares: table}
    - GlobalAveragePooling1D: {name: a, inputs: table}
    - GlobalAveragePooling1D: {name: b, inputs: again}
    - Add: {name: sum, inputs: [a, b]}
    - Dense: {inputs: sum, units: 1}
)",
                           "loss: mse", kTwoIds);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) ==
        std::vector<std::string>{"table/embeddings", "dense/kernel", "dense/bias"});
  CHECK(CountOps(model->train, "read_rows") == 1);
  CHECK(CountOps(model->train, "unique") == 1);
  CHECK(TypeToString(model->train.type(model->train.pushes[0].keys)) == "int64[s2<=40]");
  CHECK(model->summary.rows[4].params == 0);
  CHECK(model->summary.params == 9 * 4 + 4 + 1);
}

TEST_CASE("the calls of a shared layer read one variable, whose gradient is their sum") {
  const auto model = Build(R"(
  functional:
    - Input: {name: x}
    - Dense: {inputs: x, units: 4}
    - Dense: {inputs: dense, shares: dense}
    - Dense: {inputs: "dense:1", units: 1}
)",
                           "loss: mse", kFloats);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) ==
        std::vector<std::string>{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"});
  CHECK(model->train.pushes.size() == 4);
}

// The first call of `head`, and `extra`, are those of training; `bias` is that of inference.
TEST_CASE("programs have the layers of their mode, which share variables") {
  const auto model =
      Build(R"(
  functional:
    - Input: {name: x}
    - Input: {name: z}
    - Dense: {name: extra, units: 3, inputs: x}
    - ops.exp: {name: e, inputs: extra}
    - Dense: {name: head, units: 1, inputs: e}
    - Dense: {name: hidden, units: 3, inputs: z}
    - Variable: {name: bias, shape: [1]}
    - Dense: {name: again, shares: head, inputs: hidden}
    - ops.add: {name: sum, inputs: [again, bias]}
    - ops.in_training: {name: answer, inputs: [head, sum]}
  outputs: [answer]
  output_names: [price]
)",
            "loss: mse",
            {{"x", DType::kFloat32, {4}}, {"z", DType::kFloat32, {2}}, {"y", DType::kFloat32, {}}});
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) == std::vector<std::string>{"extra/kernel", "extra/bias",
                                                          "head/kernel", "head/bias",
                                                          "hidden/kernel", "hidden/bias", "bias"});
  std::vector<bool> trained;
  for (const auto& variable : model->variables) trained.push_back(variable.trainable());
  CHECK(trained == std::vector<bool>{true, true, true, true, false, false, false});
  const auto read = [](const Program& program) {
    std::set<std::string> names;
    for (const VariableDecl& variable : program.variables) names.insert(variable.name);
    return names;
  };
  CHECK(read(model->train) ==
        std::set<std::string>{"extra/kernel", "extra/bias", "head/kernel", "head/bias"});
  const std::set<std::string> inference = {"head/kernel", "head/bias", "hidden/kernel",
                                           "hidden/bias", "bias"};
  CHECK(read(model->eval) == inference);
  CHECK(read(model->predict) == inference);
  CHECK(CountOps(model->train, "exp") == 1);
  CHECK(CountOps(model->predict, "exp") == 0);
  CHECK(model->train.pushes.size() == 4);
  // All programs have the columns of both.
  CHECK(model->features == std::vector<std::string>{"x", "z", "y"});
  CHECK(model->eval_features == model->features);
  CHECK(model->predict.arguments.size() == 2);
  CHECK(model->predict.outputs[0].name == "price");
  CHECK(model->summary.params == (4 * 3 + 3) + (3 + 1) + (2 * 3 + 3) + 1);
}

TEST_CASE("an embedding whose first call is that of training has its rows in inference, too") {
  const auto model = Build(R"(
  functional:
    - Input: {name: ids}
    - Embedding: {name: table, input_dim: 9, output_dim: 2, inputs: ids}
    - ops.flip: {name: turned, axis: 1, inputs: ids}
    - Embedding: {name: again, shares: table, inputs: turned}
    - ops.exp: {name: e, inputs: table}
    - ops.in_training: {name: chosen, inputs: [e, again]}
    - Flatten: {name: flat, inputs: chosen}
    - Dense: {units: 2, inputs: flat}
)",
                           "loss: sparse_categorical_crossentropy", kIds);
  REQUIRE(model.status().message() == "");
  CHECK(CountOps(model->train, "unique") == 1);
  CHECK(CountOps(model->predict, "read_rows") == 1);
  CHECK(CountOps(model->predict, "exp") == 0);
}

TEST_CASE("errors of shared layers") {
  const auto problem = [](const std::string& layers) {
    return std::string(
        Build("  functional:\n    - Input: {name: x}\n" + layers, "loss: mse", kFloats)
            .status()
            .message());
  };
  CHECK(problem(
            "    - Dense: {inputs: x, units: 3}\n    - Dense: {inputs: dense, shares: dense}\n") ==
        "job.yaml:5: layer \"dense:1\" (Dense): its input needs kernel of shape [3, 3], but the "
        "layer "
        "\"dense\" has [4, 3]");
  CHECK(problem("    - Dense: {inputs: x, shares: dens}\n") ==
        "job.yaml:4: layer \"dens:1\" (Dense): it shares the variables of \"dens\", and no layer "
        "before "
        "it has this name");
  CHECK(problem("    - Flatten: {inputs: x, shares: x}\n") ==
        "job.yaml:4: layer \"x:1\" (Flatten): it cannot share the variables of \"x\", which is "
        "Input");
  CHECK(problem("    - Dense: {inputs: x, units: 3}\n"
                "    - Dense: {inputs: x, units: 3, shares: dense}\n") ==
        "job.yaml:5: a layer that `shares` the variables of \"dense\" has its arguments too; leave "
        "out "
        "`units`");
}

// ---------------------------------------------------------------- several outputs

const std::vector<FeatureType> kTwoLabels = {
    {"x", DType::kFloat32, {4}}, {"y", DType::kFloat32, {}}, {"z", DType::kFloat32, {3, 2}}};

absl::StatusOr<BuiltModel> BuildTwo(const std::string& compile,
                                    const std::string& label = "{first: y, other: z}") {
  const auto job = ParseJob(R"(model:
  functional:
    - Input: {name: x}
    - Dense: {name: first, inputs: x, units: 1, activation: sigmoid}
    - Dense: {name: wide, inputs: x, units: 6}
    - Reshape: {name: other, inputs: wide, target_shape: [3, 2]}
  outputs: [first, other]
compile: {)" + compile + "}\ndata: {batch_size: 8, train: {csv: {path: a}, label: " +
                                label + "}}\n",
                            "job.yaml");
  if (!job.ok()) return job.status();
  return BuildModel(job->spec, kTwoLabels, &job->lines);
}

TEST_CASE("several outputs are listed, named or share one loss") {
  for (const char* compile :
       {"loss: mse, metrics: [[accuracy], null]", "loss: [mse, mse], metrics: {first: accuracy}",
        "loss: {other: mse, first: mse}, metrics: [accuracy, null]"}) {
    for (const char* label : {"{first: y, other: z}", "[y, z]"}) {
      INFO(compile << " " << label);
      const auto model = BuildTwo(compile, label);
      REQUIRE(model.status().message() == "");
      std::vector<std::string> metrics;
      for (const auto& metric : model->train.metrics) metrics.push_back(metric.name);
      CHECK(metrics ==
            std::vector<std::string>{"loss", "first_loss", "other_loss", "first_accuracy"});
      CHECK(model->features == std::vector<std::string>{"x", "y", "z"});
      REQUIRE(model->predict.outputs.size() == 2);
      CHECK(model->predict.outputs[1].name == "other");
    }
  }
}

TEST_CASE("errors of several outputs") {
  const struct {
    std::string compile;
    std::string label;
  } kCases[] = {
      {"loss: [mse]", "[y, z]"},
      {"loss: {first: mse}", "[y, z]"},
      {"loss: {first: mse, othr: mse}", "[y, z]"},
      {"loss: mse, metrics: [accuracy]", "[y, z]"},
      {"loss: mse, loss_weights: 2", "[y, z]"},
      {"loss: mse, loss_weights: [1, -1]", "[y, z]"},
      {"loss: mse", "y"},
      {"loss: mse", "{first: y}"},
      {"loss: mse", "[y, y]"},
  };
  testing::GoldenCases observed;
  for (const auto& c : kCases) {
    observed.emplace_back(c.compile + "; label: " + c.label,
                          std::string(BuildTwo(c.compile, c.label).status().message()));
  }
  CHECK(testing::DifferenceFromGolden("common/model/testdata/output_errors.txt", observed) == "");
}

TEST_CASE("one output may have a weight, too") {
  const auto model = Build("  sequential: [{Dense: {name: out, units: 1}}]\n",
                           "loss: {out: mse}, loss_weights: 3", kFloats);
  REQUIRE(model.status().message() == "");
  CHECK(model->train.metrics.size() == 1);
}

TEST_CASE("a program clips gradients if servers apply each push, and not in mode sync") {
  const auto sqrts = [](const std::string& strategy) {
    const auto job = ParseJob(
        "model: {sequential: [{Dense: {units: 1}}]}\n"
        "compile: {loss: mse, optimizer: {SGD: {clipnorm: 1}}}\n"
        "data: {batch_size: 8, train: {csv: {path: a}, label: y}}\n" +
            strategy,
        "job.yaml");
    REQUIRE(job.status().message() == "");
    const auto model = BuildModel(job->spec, kFloats, &job->lines);
    REQUIRE(model.status().message() == "");
    CHECK(CountOps(model->eval, "sqrt") == 0);
    return CountOps(model->train, "sqrt");
  };
  CHECK(sqrts("") == 2);  // one for the kernel, one for the bias
  CHECK(sqrts("strategy: {mode: bounded_staleness}\n") == 2);
  CHECK(sqrts("strategy: {mode: sync}\n") == 0);
}

TEST_CASE("constraints of layers belong to their variables, which stay whole if that is needed") {
  const auto model = Build(R"(
  sequential:
    - Dense: {name: a, units: 8, kernel_constraint: max_norm, bias_constraint: {NonNeg: {}}}
    - Dense: {name: b, units: 1, kernel_constraint: {UnitNorm: {axis: 1}}, trainable: false}
    - Dense: {name: c, units: 1, kernel_constraint: {MinMaxNorm: {axis: -1}}}
)",
                           "loss: mse, optimizer: Adam", kFloats);
  REQUIRE(model.status().message() == "");
  std::map<std::string, std::pair<std::string, bool>> found;
  for (const v1::VariableSpec& variable : model->variables) {
    found[variable.name()] = {variable.constraint().class_name(), variable.whole()};
  }
  CHECK(found["a/kernel"] == std::pair<std::string, bool>{"MaxNorm", true});
  CHECK(found["a/bias"] == std::pair<std::string, bool>{"NonNeg", false});
  CHECK(found["b/kernel"] == std::pair<std::string, bool>{"", false});
  CHECK(found["c/kernel"] == std::pair<std::string, bool>{"MinMaxNorm", false});

  const auto lamb =
      Build("  sequential: [{Dense: {units: 1}}]\n", "loss: mse, optimizer: lamb", kFloats);
  REQUIRE(lamb.status().message() == "");
  for (const v1::VariableSpec& variable : lamb->variables) CHECK(variable.whole());

  const auto wrong = [](const std::string& axis) {
    return std::string(Build(fmt::format("  sequential: [{{Dense: {{units: 1, bias_constraint: "
                                         "{{UnitNorm: {{axis: {}}}}}}}}}]\n",
                                         axis),
                             "loss: mse", kFloats)
                           .status()
                           .message());
  };
  CHECK_THAT(wrong("1"),
             Catch::Contains("bias_constraint: UnitNorm: axis 1 is not one of the shape [1]"));
  CHECK_THAT(wrong("[]"), Catch::Contains("bias_constraint: UnitNorm: `axis` names no axis"));
}

const std::vector<FeatureType> kImages = {{"x", DType::kFloat32, {9, 8, 3}},
                                          {"y", DType::kFloat32, {}}};

TEST_CASE("convolutions have Keras' variables and fans, and 1 by 1 is a product of matrices") {
  const auto model = Build(R"(
  sequential:
    - Conv2D: {filters: 6, kernel_size: [3, 2], groups: 3}
    - SeparableConv2D: {filters: 4, kernel_size: 3, depth_multiplier: 2}
    - Conv2D: {filters: 5, kernel_size: 1, use_bias: false}
    - Conv2DTranspose: {filters: 2, kernel_size: 2, strides: 2}
    - GlobalAveragePooling2D
    - Dense: {units: 1}
)",
                           "loss: mse", kImages);
  REQUIRE(model.status().message() == "");
  CHECK(VariableNames(*model) ==
        std::vector<std::string>{
            "conv2d/kernel", "conv2d/bias", "separable_conv2d/depthwise_kernel",
            "separable_conv2d/pointwise_kernel", "separable_conv2d/bias", "conv2d_1/kernel",
            "conv2d_transpose/kernel", "conv2d_transpose/bias", "dense/kernel", "dense/bias"});
  CHECK(model->variables[0].initializer().fan_in() == 6);
  CHECK(model->variables[0].initializer().fan_out() == 36);
  CHECK(CountOps(model->predict, "conv2d") == 2);
  CHECK(CountOps(model->predict, "matmul") == 3);
  CHECK(CountOps(model->predict, "conv2d_input_grad") == 1);
}

// By variable: the kind of its push, 0 for none.
std::vector<int> PushKinds(const BuiltModel& model) {
  std::vector<int> kinds;
  for (const auto& variable : model.variables) {
    kinds.push_back(0);
    for (const Push& push : model.train.pushes) {
      if (model.train.variables[static_cast<size_t>(push.variable)].name == variable.name()) {
        kinds.back() = static_cast<int>(push.kind);
      }
    }
  }
  return kinds;
}

TEST_CASE("batch normalization pushes moving statistics; a frozen one uses them in training") {
  const auto model = Build(R"(
  sequential:
    - BatchNormalization: {momentum: 0.75}
    - Dense: {units: 2}
    - BatchNormalization: {trainable: false}
    - Dense: {units: 1}
)",
                           "loss: mse", kFloats);
  REQUIRE(model.status().message() == "");
  // gamma, beta, moving_mean, moving_variance; kernel, bias; the frozen four; kernel, bias.
  const int kGradient = static_cast<int>(PushKind::kGradient),
            kEma = static_cast<int>(PushKind::kEma);
  CHECK(PushKinds(*model) == std::vector<int>{kGradient, kGradient, kEma, kEma, kGradient,
                                              kGradient, 0, 0, 0, 0, kGradient, kGradient});
  CHECK(model->variables[3].name() == "batch_normalization/moving_variance");
  CHECK(model->variables[3].initializer().class_name() == "Ones");
  for (const size_t i : {2, 3, 6, 7, 8, 9}) CHECK_FALSE(model->variables[i].trainable());
  for (const Push& push : model->train.pushes) {
    if (push.kind == PushKind::kEma) CHECK(push.momentum == 0.75);
  }
  CHECK(CountOps(model->train, "batch_norm_train") == 1);
  CHECK(CountOps(model->eval, "batch_norm_train") == 0);
  CHECK(model->eval.pushes.empty());
  // gamma and beta of the first layer, and two Dense.
  CHECK(model->summary.params - model->summary.frozen_params == 8 + 10 + 3);
}

TEST_CASE("what layers over images refuse") {
  const struct {
    const char* layer;
    const char* error;
  } cases[] = {
      {"Conv2D: {filters: 2, kernel_size: 3, data_format: channels_first}",
       "data_format must be channels_last, not \"channels_first\""},
      {"MaxPooling2D: {data_format: channels_first}",
       "data_format must be channels_last, not \"channels_first\""},
      {"Conv1D: {filters: 2, kernel_size: 3}", "the input must be [batch, steps, features]"},
      {"Conv2D: {filters: 2, kernel_size: [3, 3, 3]}", "kernel_size must be one number or two"},
      {"Conv2D: {filters: 2, kernel_size: 30}",
       "a kernel of 30 elements with dilation 1 does not fit into 9 elements"},
      {"Conv2D: {filters: 2, kernel_size: 2, strides: 2, dilation_rate: 2}",
       "strides above 1 and dilation_rate above 1 exclude each other"},
      {"Conv2D: {filters: 4, kernel_size: 2, groups: 2}",
       "3 channels and 4 filters are not divisible by 2 groups"},
      {"Conv2DTranspose: {filters: 4, kernel_size: 2, strides: 2, output_padding: 2}",
       "output_padding must be less than strides"},
      {"BatchNormalization: {synchronized: true}", "synchronized: true is not supported"},
      {"BatchNormalization: {axis: 0}", "axis 0 is not one of"},
      {"BatchNormalization: {axis: 4}", "axis 4 is not one of"},
  };
  for (const auto& c : cases) {
    const auto model = Build(std::string("\n  sequential:\n    - ") + c.layer +
                                 "\n    - Flatten\n    - Dense: {units: 1}\n",
                             "loss: mse", kImages);
    INFO(c.layer << ": " << model.status());
    CHECK(model.status().message().find(c.error) != absl::string_view::npos);
  }
  const auto twice = Build(R"(
  functional:
    - Input: {name: x}
    - BatchNormalization: {name: norm, inputs: x}
    - BatchNormalization: {name: again, inputs: norm, shares: norm}
    - Dense: {inputs: again, units: 1}
)",
                           "loss: mse", kFloats);
  INFO(twice.status());
  CHECK(twice.status().message().find("it is called twice") != absl::string_view::npos);
}

TEST_CASE("what recurrent layers refuse") {
  const struct {
    const char* layer;
    const char* error;
  } cases[] = {
      {"LSTM: {units: 2, stateful: true}", "stateful: true is not supported: the batches of a job"},
      {"SimpleRNN: {units: 2, time_major: true}", "`time_major` of SimpleRNN is not supported yet"},
      {"LSTM: {units: 2, bias_initializer: glorot_uniform}",
       "unit_forget_bias: true needs a bias_initializer Zeros, Ones or Constant"},
      {"Bidirectional: {layer: {LSTM: {units: 2}}, backward_layer: {LSTM: {units: 2}}}",
       "backward_layer must have another go_backwards"},
      {"Bidirectional: {layer: {LSTM: {units: 2}}, backward_layer: {LSTM: {units: 2, go_backwards: "
       "true, return_state: true}}}",
       "and the same return_sequences and return_state"},
      {"ConvLSTM1D: {filters: 2, kernel_size: 2}",
       "the input must be [batch, steps, places..., channels]"},
      {"Bidirectional: {layer: {LSTM: {units: 2, activity_regularizer: l2}}}",
       "`activity_regularizer` of LSTM is not supported yet"},
      {"Bidirectional: {layer: {Dense: {units: 2}}}", "Dense"},
      {"RNN: {cell: {StackedRNNCells: {cells: []}}}", "cells must be one or more"},
      {"RNN: {cell: {LSTM: {units: 2}}}", "LSTM"},
  };
  for (const auto& c : cases) {
    const auto model =
        Build(std::string("\n  sequential:\n    - Reshape: {target_shape: [9, -1]}\n") + "    - " +
                  c.layer + "\n    - Dense: {units: 1}\n",
              "loss: mse", kImages);
    INFO(c.layer << ": " << model.status());
    CHECK(model.status().message().find(c.error) != absl::string_view::npos);
  }
  const auto images = Build("\n  sequential:\n    - LSTM: {units: 2}\n", "loss: mse", kImages);
  CHECK_THAT(images.status().ToString(),
             Catch::Contains("the input must be [batch, steps, features]"));
}

TEST_CASE("what the layers of recommenders refuse") {
  const auto error = [](const std::string& layer) {
    const auto model = Build("  functional:\n    - Input: {name: x}\n" + layer +
                                 "    - Dense: {inputs: made, units: 1}\n",
                             "loss: mse", kFloats);
    REQUIRE_FALSE(model.ok());
    return std::string(model.status().message());
  };
  const std::string narrow = "    - Dense: {name: narrow, inputs: x, units: 2}\n";
  const std::string one = "    - Reshape: {name: one, inputs: x, target_shape: [1, 4]}\n";
  for (const char* layer : {"FeatureInteraction", "FactorizationMachine"}) {
    INFO(layer);
    CHECK_THAT(error(narrow + "    - " + layer + ": {name: made, inputs: [x, narrow]}\n"),
               Catch::Contains("layer \"made\"") &&
                   Catch::Contains("input 0 is float32[batch<=8, 4] and input 1 is "
                                   "float32[batch<=8, 2]: vectors must be equally wide"));
    CHECK_THAT(error("    - Reshape: {name: deep, inputs: x, target_shape: [2, 1, 2]}\n    - " +
                     std::string(layer) + ": {name: made, inputs: [x, deep]}\n"),
               Catch::Contains("input 1 is float32[batch<=8, 2, 1, 2], and must be [batch, d] or"));
  }
  CHECK_THAT(error(one + "    - FeatureInteraction: {name: made, inputs: one}\n"),
             Catch::Contains("it has one vector"));
  CHECK_THAT(error(narrow + "    - CrossLayer: {name: made, inputs: [x, narrow]}\n"),
             Catch::Contains("of one shape, not float32[batch<=8, 4] and float32[batch<=8, 2]"));
  CHECK_THAT(error(one + "    - CrossLayer: {name: made, inputs: one}\n"),
             Catch::Contains("must be two values [batch, features] of one shape, not float32["));
}

TEST_CASE("a recurrent layer takes its states all or none, and gives them as parts") {
  const auto build = [](const std::string& layers) {
    return Build(R"(
  functional:
    - Input: {name: x}
    - Reshape: {name: steps, inputs: x, target_shape: [9, -1]}
    - LSTM: {name: encoder, inputs: steps, units: 2, return_state: true}
    - ops.part: {name: h, inputs: encoder, index: 1}
    - ops.part: {name: c, inputs: encoder, index: 2}
)" + layers + "    - Dense: {units: 1, inputs: last}\n",
                 "loss: mse", kImages)
        .status()
        .ToString();
  };
  CHECK(build("    - LSTM: {name: last, inputs: [steps, h, c], units: 2}\n") == "OK");
  CHECK_THAT(build("    - LSTM: {name: again, inputs: [steps, h], units: 2}\n"
                   "    - ops.add: {name: last, inputs: [again, c]}\n"),
             Catch::Contains("initial_state must be 2 tensors, one for each state, and is 1"));
  CHECK_THAT(build("    - LSTM: {name: last, inputs: [steps, h, c], units: 3}\n"),
             Catch::Contains("initial_state 0 must be float32["));
  CHECK_THAT(build("    - ops.part: {name: third, inputs: encoder, index: 3}\n"
                   "    - ops.add: {name: sum, inputs: [h, c]}\n"
                   "    - ops.add: {name: last, inputs: [sum, third]}\n"),
             Catch::Contains("its input has 3 outputs, and none at 3"));
}

TEST_CASE("a further call of a layer has the arguments of its call") {
  const auto model = Build(R"(
  functional:
    - Input: {name: x}
    - Dense: {name: hidden, inputs: x, units: 3}
    - Reshape: {name: steps, inputs: hidden, target_shape: [3, 1]}
    - Attention: {name: first, inputs: [steps, steps]}
    - Attention: {name: second, inputs: [first, steps], shares: first, use_causal_mask: true}
    - Flatten: {inputs: second}
    - Dense: {inputs: flatten, units: 1}
)",
                           "loss: mse", kFloats);
  CHECK(model.status().message() == "");
}

TEST_CASE("what SpectralNormalization and ReversibleEmbedding refuse") {
  const struct {
    const char* layer;
    const char* error;
  } cases[] = {
      {"SpectralNormalization: {layer: {Flatten: {}}}", "Flatten has no kernel"},
      {"SpectralNormalization: {layer: {Dense: {units: 2, kernel_constraint: non_neg}}}",
       "kernel_constraint inside SpectralNormalization is not supported"},
      {"SpectralNormalization: {layer: {Embedding: {input_dim: 2, output_dim: 2}}}",
       "Embedding inside SpectralNormalization is not supported"},
      {"ReversibleEmbedding: {input_dim: 2, output_dim: 3, reverse: true}",
       "with reverse: true its input is [batch, ..., 3]"},
  };
  for (const auto& c : cases) {
    const auto model =
        Build(std::string("\n  sequential:\n    - ") + c.layer + "\n    - Dense: {units: 1}\n",
              "loss: mse", kFloats);
    INFO(c.layer << ": " << model.status());
    CHECK(model.status().message().find(c.error) != absl::string_view::npos);
  }
}

TEST_CASE("a frozen Bidirectional has frozen variables, and each direction its own names") {
  const auto model = Build(R"(
  sequential:
    - Reshape: {target_shape: [9, -1]}
    - Bidirectional: {layer: {LSTM: {units: 2}}, trainable: false}
    - Dense: {units: 1}
)",
                           "loss: mse", kImages);
  REQUIRE(model.status().message() == "");
  REQUIRE(model->variables.size() == 8);
  CHECK(model->variables[0].name() == "bidirectional/forward_lstm/lstm_cell/kernel");
  CHECK(model->variables[5].name() == "bidirectional/backward_lstm/lstm_cell/bias");
  CHECK(model->variables[5].initializer().class_name() == "OnesWithin");
  for (size_t i = 0; i < 6; ++i) CHECK(!model->variables[i].trainable());
}

// The devices of the nodes that a layer has made, forward and backward.
std::set<std::string> DevicesOf(const Program& program, const std::string& layer) {
  std::set<std::string> devices;
  for (const Node& node : program.nodes) {
    if (node.name == layer && !IsLeaf(node)) devices.insert(node.device);
  }
  return devices;
}

using Devices = std::set<std::string>;

TEST_CASE("layers run on the devices that they name, forward and backward") {
  const auto model = Build(R"(
  functional:
    - Input: {name: x}
    - Dense: {name: first, inputs: x, units: 8, activation: relu}
    - Dense: {name: second, inputs: first, units: 8, device: "GPU:1", kernel_regularizer: l2}
    - Dense: {name: second_again, inputs: second, shares: second}
    - Dense: {name: third, inputs: second_again, units: 8, device: "worker:1/cpu"}
    - Dense: {name: fourth, inputs: third, units: 1}
  devices:
    - {layers: "f*h", device: "cpu:2"}
    - {layers: "third", device: "cpu:3"}
)",
                           "loss: mse", kFloats);
  REQUIRE(model.status().message() == "");
  for (const Program* program : {&model->train, &model->eval}) {
    CHECK(DevicesOf(*program, "first") == Devices{""});
    CHECK(DevicesOf(*program, "second") == Devices{"cuda:1"});
    CHECK(DevicesOf(*program, "second_again") == Devices{"cuda:1"});
    CHECK(DevicesOf(*program, "third") == Devices{"worker:1/cpu:0"});
    CHECK(DevicesOf(*program, "fourth") == Devices{"cpu:2"});
    CHECK(DevicesOf(*program, "loss") == Devices{""});
  }
  CHECK_THAT(FormatSummary(model->summary), Catch::Contains("Device") &&
                                                Catch::Contains("worker:1/cpu:0") &&
                                                Catch::Contains("cuda:1"));
}

TEST_CASE("what is no device, or matches no layer, is refused by its line") {
  const auto error = [](const std::string& model) {
    return std::string(Build(model, "loss: mse", kFloats).status().message());
  };
  CHECK_THAT(error("  sequential:\n    - Dense: {units: 1, device: \"cud:1\"}\n"),
             Catch::Contains("job.yaml:3") && Catch::Contains("\"cud:1\" is not a device"));
  CHECK_THAT(
      error("  sequential: [{Dense: {units: 1}}]\n  devices:\n"
            "    - {layers: \"conv*\", device: \"cpu:1\"}\n"),
      Catch::Contains("job.yaml:4: no layer matches \"conv*\"; there are input_layer, dense"));
  CHECK_THAT(error("  sequential: [{Dense: {units: 1}}]\n  devices: [{layers: \"*\"}]\n"),
             Catch::Contains("and `device`"));
}

TEST_CASE("devices of workers that the cluster lacks are refused by their line") {
  const auto job = ParseJob(
      "model:\n  sequential:\n    - Dense: {units: 1, device: \"worker:2/cuda:0\"}\n"
      "compile: {loss: mse}\ndata: {batch_size: 8, train: {csv: {path: a}, label: y}}\n",
      "job.yaml");
  REQUIRE(job.status().message() == "");
  CHECK(CheckDeviceWorkers(job->spec, job->lines, {0, 1, 2}).ok());
  const absl::Status refused = CheckDeviceWorkers(job->spec, job->lines, {0, 1});
  CHECK_THAT(std::string(refused.message()), Catch::Contains("job.yaml:3") &&
                                                 Catch::Contains("\"worker:2/cuda:0\"") &&
                                                 Catch::Contains("worker:0, worker:1"));
  v1::JobSpec elastic = job->spec;
  elastic.mutable_strategy()->set_elastic(true);
  CHECK_THAT(std::string(CheckDeviceWorkers(elastic, job->lines, {0, 1, 2}).message()),
             Catch::Contains("strategy.elastic"));
}

JobFile ReadJobText(const std::string& text) {
  auto job = ParseJob(text, "job.yaml");
  INFO(job.status().message());
  REQUIRE(job.ok());
  return *std::move(job);
}

JobFile JobOf(std::string_view model, std::string_view loss, std::string_view data) {
  return ReadJobText(fmt::format(
      "model:\n{}\ncompile: {{loss: {}}}\ndata: {{train: {{csv: {{path: a.csv}}, {}}}}}\n", model,
      loss, data));
}

// "int64 < 10: layer "e"", by column.
std::map<std::string, std::string> ReadsOf(const v1::DatasetSpec& dataset) {
  std::map<std::string, std::string> reads;
  for (const v1::ColumnRead& read : dataset.reads()) {
    reads[read.column()] = read.dtype() +
                           (read.below() > 0 ? fmt::format(" < {}", read.below()) : "") +
                           (read.reader().empty() ? "" : ": " + read.reader());
  }
  return reads;
}

using Expected = std::map<std::string, std::string>;

TEST_CASE(
    "ids are integers, also behind layers that move them, and of two tables the shorter counts") {
  const JobFile job = JobOf(R"(
  functional:
    - Input: {name: a, shape: [1]}
    - Input: {name: b, shape: [1], dtype: float32}
    - Input: {name: x, shape: [1]}
    - Input: {name: n, shape: [1], dtype: int32}
    - Concatenate: {name: ids, inputs: [a, b]}
    - Embedding: {name: long, inputs: ids, input_dim: 50, output_dim: 1}
    - Embedding: {name: short, inputs: a, input_dim: 10, output_dim: 1}
    - Flatten: {name: f, inputs: long}
    - Flatten: {name: g, inputs: short}
    - Concatenate: {name: all, inputs: [f, g, x, n]}
    - Dense: {inputs: all, units: 1})",
                            "mse", "label: y");
  CHECK(ReadsOf(job.spec.data().train()) == Expected{{"a", "int64 < 10: layer \"short\""},
                                                     {"b", "int64 < 50: layer \"long\""},
                                                     {"n", "int64: layer \"n\" of dtype int32"}});
}

TEST_CASE("labels of sparse losses are classes") {
  const JobFile job = JobOf(R"(
  sequential:
    - Dense: {units: 7}
    - Activation: {activation: softmax})",
                            "sparse_categorical_crossentropy", "label: y");
  CHECK(ReadsOf(job.spec.data().train()) ==
        Expected{{"y", "int64 < 7: the loss SparseCategoricalCrossentropy"}});
}

TEST_CASE("a float64 model reads float64, and a model without an Input the only column") {
  const JobFile job =
      JobOf("  dtype: float64\n  sequential: [{Dense: {units: 1}}]", "mse", "label: y");
  CHECK(ReadsOf(job.spec.data().train()) == Expected{{"", "float64"}, {"y", "float64"}});
  CHECK(ReadsOf(JobOf("  sequential: [{Dense: {units: 1}}]", "mse", "label: y").spec.data().train())
            .empty());
}

TEST_CASE("the validation set is read as the training set, with its own label") {
  const JobFile job = ReadJobText(R"(
model:
  sequential: [{Input: {shape: [1], feature: id}}, {Embedding: {input_dim: 5, output_dim: 3}}, Flatten]
compile: {loss: sparse_categorical_crossentropy}
data:
  train: {csv: {path: a.csv}, label: y}
  validation: {csv: {path: b.csv}, label: z}
)");
  CHECK(ReadsOf(job.spec.data().validation()) ==
        Expected{{"id", "int64 < 5: layer \"embedding\""},
                 {"z", "int64: the loss SparseCategoricalCrossentropy"}});
}

TEST_CASE("an Input of ids is int64, whatever the column and its own dtype are") {
  for (const char* dtype : {"", ", dtype: float32", ", dtype: int64"}) {
    for (const DType column : {DType::kFloat64, DType::kFloat32, DType::kInt64, DType::kUint8}) {
      const JobFile job =
          JobOf(fmt::format("  sequential: [{{Input: {{shape: [1], feature: id{}}}}}, {{Embedding: "
                            "{{input_dim: 5, output_dim: 1}}}}, Flatten]",
                            dtype),
                "mse", "label: y");
      const std::vector<FeatureType> features = {{"id", column, {}}, {"y", DType::kFloat32, {}}};
      const auto model = BuildModel(job.spec, features, &job.lines);
      INFO(model.status().message());
      REQUIRE(model.ok());
      // No number passes through the float32 of the model.
      for (const auto& node : model->train.nodes) {
        if (node.op == "cast") CHECK(model->train.type(node.outputs[0]).dtype == DType::kInt64);
      }
    }
  }
}

absl::StatusOr<JobFile> JobOfTrain(const std::string& train, const std::string& fit) {
  return ParseJob(
      "model: {sequential: [{Input: {shape: [1], feature: x}}, {Dense: {units: 5}}]}\n"
      "compile: {loss: sparse_categorical_crossentropy}\n"
      "data:\n"
      "  batch_size: 2\n"
      "  train: {" +
          train +
          "}\n"
          "  validation: {csv: {path: other.csv}}\n"
          "fit: {" +
          fit + "}\n",
      "job.yaml");
}

std::string TrainError(const std::string& train, const std::string& fit) {
  return testing::Message(JobOfTrain(train, fit).status());
}

// The weights that a job gets for these labels.
absl::StatusOr<std::map<int64_t, double>> BalancedWeights(const std::string& labels,
                                                          const std::string& more = "") {
  const testing::TestDirectory directory;
  directory.Write("t.csv", "x,y\n" + labels);
  auto job = JobOfTrain("csv: {path: " + (directory / "t.csv") + "}, label: y" + more,
                        "class_weight: balanced");
  if (!job.ok()) return job.status();
  const auto opened = OpenTraining({}, &job->spec);
  if (!opened.ok()) return opened.status();
  const auto& weights = job->spec.fit().class_weight();
  return std::map<int64_t, double>(weights.begin(), weights.end());
}

TEST_CASE("balanced class weights are those of scikit-learn") {
  // compute_class_weight("balanced", classes=[0, 1, 4], y=y)
  const auto weights =
      BalancedWeights("0,0\n1,0\n2,0\n3,0\n4,0\n5,0\n6,0\n7,1\n8,1\n9,4\n10,4\n11,4\n");
  REQUIRE(testing::Message(weights.status()) == "");
  CHECK(*weights ==
        std::map<int64_t, double>{{0, 0.5714285714285714}, {1, 2.0}, {4, 1.3333333333333333}});
  const auto filtered = BalancedWeights("0,0\n1,0\n2,0\n3,1\n4,2\n", ", filter: x > 1");
  REQUIRE(testing::Message(filtered.status()) == "");
  CHECK(*filtered == std::map<int64_t, double>{{0, 1}, {1, 1}, {2, 1}});
  CHECK(testing::Contains(testing::Message(BalancedWeights("0,0.5\n").status()), "0.5"));
  CHECK(testing::Contains(TrainError("csv: {path: a.csv}, label: y", "class_weight: equal"),
                          "job.yaml:7: `fit.class_weight` is `balanced`, or a mapping"));
  CHECK(testing::Contains(
      TrainError("csv: {path: a.csv}, label: y", "balance_classes: true"),
      "job.yaml:7: weights that balance the classes are `class_weight: balanced`"));
}

TEST_CASE("a filter is checked when the job is read, and holds for the validation set") {
  const auto job =
      JobOfTrain("csv: {path: a.csv}, label: y, filter: \"x > 1 and word == 'a'\"", "epochs: 1");
  REQUIRE(testing::Message(job.status()) == "");
  CHECK(job->spec.data().validation().filter() == "x > 1 and word == 'a'");
  CHECK(testing::Contains(
      TrainError("csv: {path: a.csv}, label: y, filter: x = 1", "epochs: 1"),
      "job.yaml:5: filter: \"x = 1\": at character 3: two values are compared with"));
  CHECK(testing::Contains(
      TrainError("csv: {path: a.csv}, label: y, transforms: [{output: z, expression: lg(x)}]",
                 "epochs: 1"),
      "job.yaml:5: \"lg(x)\": at character 1: there is no function \"lg\""));
  CHECK(testing::Contains(
      TrainError("csv: {path: a.csv}, label: y, transforms: [{expression: x + 1}]", "epochs: 1"),
      "job.yaml:5: a transform of several `columns` needs an `output`"));
  CHECK(testing::Contains(TrainError("csv: {path: a.csv}, label: y, "
                                     "transforms: [{column: y, expression: x + 1}]",
                                     "epochs: 1"),
                          "job.yaml:5: Expression reads x: leave out `column`"));
}

// Lists of different lengths (ragged_inputs.h), from the files to the program.

// A job with a bag of `clicks`, which `weights` weigh, in the files of a directory.
class RaggedJob {
 public:
  explicit RaggedJob(std::string source = "csv: {path: clicks.csv}") : source_(std::move(source)) {}

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.path() + "/" + name) << text;
  }
  absl::StatusOr<JobFile> Parse(
      const std::string& layers =
          "    - Input: {name: clicks, dtype: int64, ragged: true, max_length: 4}\n"
          "    - Input: {name: weights, dtype: float32, ragged: true, max_length: 4}\n"
          "    - EmbeddingBag: {name: bag, inputs: [clicks, weights], input_dim: 10, output_dim: "
          "3, "
          "combiner: sum}\n") const {
    return ParseJob("model:\n  functional:\n" + layers +
                        "    - Dense: {inputs: bag, units: 1}\ncompile: {loss: mse}\n"
                        "data: {batch_size: 8, train: {" +
                        source_ + ", label: y}}\nfit: {epochs: 1}\n",
                    "job.yaml");
  }
  absl::StatusOr<std::shared_ptr<const Dataset>> Open() const {
    const auto job = Parse();
    if (!job.ok()) return job.status();
    return Dataset::Open(job->spec.data().train(), {.data_dir = directory_.path()});
  }
  // The error of opening the data, or of gathering all records.
  std::string Error() const {
    const auto data = Open();
    if (!data.ok()) return std::string(data.status().message());
    std::vector<uint64_t> records((*data)->num_records());
    for (size_t i = 0; i < records.size(); ++i) records[i] = i;
    const auto features = (*data)->FindFeatures(kNames);
    if (!features.ok()) return std::string(features.status().message());
    std::vector<Tensor> batch;
    return std::string((*data)->Gather(records, *features, &batch).message());
  }

  static inline const std::vector<std::string> kNames = {"clicks", "weights"};

 private:
  const std::string source_;
  const testing::TestDirectory directory_;
};

void CheckRecords(const RaggedJob& job) {
  const auto data = job.Open();
  REQUIRE(data.status().message() == "");
  const auto features = (*data)->FindFeatures(RaggedJob::kNames);
  REQUIRE(features.status().message() == "");
  std::vector<Tensor> batch;
  const std::vector<uint64_t> records = {0, 1, 2};
  REQUIRE((*data)->Gather(records, *features, &batch).message() == "");
  REQUIRE(batch[0].dtype() == DType::kInt64);
  REQUIRE(batch[0].dims() == Dims{3, 4});
  const auto ids = batch[0].values<int64_t>();
  CHECK(std::vector<int64_t>(ids.begin(), ids.end()) ==
        std::vector<int64_t>{7, 3, 7, kNoId, kNoId, kNoId, kNoId, kNoId, 0, 1, 2, 9});
  REQUIRE(batch[1].dtype() == DType::kFloat32);
  const auto weights = batch[1].values<float>();
  for (size_t i = 0; i < 12; ++i)
    CHECK((weights[i] == static_cast<float>(kNoWeight)) == (ids[i] == kNoId));
  CHECK(weights[1] == 0.5F);
  CHECK(weights[11] == 4.0F);
}

TEST_CASE("lists of CSV cells are padded for a ragged Input") {
  const RaggedJob job;
  job.Write("clicks.csv", "y,clicks,weights\n1,7|3|7,1|0.5|2\n0,,\n1,0|1|2|9,1|2|3|4\n");
  CheckRecords(job);
}

TEST_CASE("lists of JSON lines are padded for a ragged Input") {
  const RaggedJob job("json_lines: {path: a.jsonl, columns: {y: {}, clicks: {}, weights: {}}}");
  job.Write("a.jsonl", R"({"y": 1, "clicks": [7, 3, 7], "weights": [1, 0.5, 2]}
{"y": 0, "clicks": [], "weights": []}
{"y": 1, "clicks": [0, 1, 2, 9], "weights": [1, 2, 3, 4]}
)");
  CheckRecords(job);
  job.Write("a.jsonl", "{\"y\": 1, \"clicks\": [7, 3, 7], \"weights\": [1, 0.5]}\n");
  CHECK_THAT(job.Error(), Catch::Contains("a.jsonl: line 1: column \"weights\": has 2 weights, and "
                                          "\"clicks\" has 3 ids"));
}

TEST_CASE("ragged lists that do not fit are refused with file, line and column") {
  const RaggedJob job;
  const auto error = [&](const std::string& line) {
    job.Write("clicks.csv", "y,clicks,weights\n1,7|3,1|1\n" + line + "\n");
    return job.Error();
  };
  CHECK(error("0,1,1") == "");
  CHECK_THAT(error("0,1|2|3|4|5,1|1|1|1|1"),
             Catch::Contains("clicks.csv: line 3: column \"clicks\": has 5 numbers"));
  CHECK_THAT(error("0,1|10,1|1"),
             Catch::Contains("clicks.csv: line 3: column \"clicks\"[1]: 10 does not "
                             "lie in [0, 10), as layer \"bag\" needs it"));
  CHECK_THAT(error("0,-1,1"),
             Catch::Contains("line 3: column \"clicks\"[0]: -1 does not lie in [0, 10)"));
  CHECK_THAT(error("0,1|2.5,1|1"),
             Catch::Contains("line 3: column \"clicks\"[1]: 2.5 is not an integer"));
  CHECK_THAT(error("0,1|2,1"),
             Catch::Contains("clicks.csv: line 3: column \"weights\": has 1 weights, and "
                             "\"clicks\" has 2 ids"));
  CHECK_THAT(error("0,,1"), Catch::Contains("has 1 weights, and \"clicks\" has 0 ids"));
}

TEST_CASE("a bag of a table without bounds gives the end of a list no key") {
  const RaggedJob job;
  const auto parsed = job.Parse(
      "    - Input: {name: clicks, dtype: int64, ragged: true, max_length: 4}\n"
      "    - DynamicEmbeddingBag: {name: bag, inputs: clicks, output_dim: 3, max_rows: 50}\n");
  REQUIRE(parsed.status().message() == "");
  const auto features = DeclaredFeatures(parsed->spec);
  REQUIRE(features.status().message() == "");
  const auto model = BuildModel(parsed->spec, *features);
  REQUIRE(model.status().message() == "");
  CHECK(IsTable(model->variables[0].dims()));
  CHECK(model->variables[0].table().max_rows() == 50);
  REQUIRE(CountOps(model->train, "table_row") == 1);
  for (const Node& node : model->train.nodes) {
    if (node.op == "table_row") CHECK(BoolAttr(node, "lists"));
    if (node.op == "unique") CHECK(IntAttr(node, "padding") == kNoId);
  }
}

TEST_CASE("padding gets no key, and its place is none") {
  const RaggedJob job;
  const auto parsed = job.Parse();
  REQUIRE(parsed.status().message() == "");
  const auto features = DeclaredFeatures(parsed->spec);
  REQUIRE(features.status().message() == "");
  const auto model = BuildModel(parsed->spec, *features, &parsed->lines);
  REQUIRE(model.status().message() == "");
  int uniques = 0;
  for (const Node& node : model->train.nodes) {
    if (node.op != "unique") continue;
    ++uniques;
    CHECK(std::get<int64_t>(node.attrs.at("padding")) == kNoId);
    CHECK(model->train.symbols[1].capacity == 8 * 4);
  }
  CHECK(uniques == 1);
}

TEST_CASE("what ragged Inputs refuse") {
  const RaggedJob job;
  const auto error = [](const RaggedJob& of, const std::string& layers) {
    const auto parsed = of.Parse(layers);
    if (!parsed.ok()) return std::string(parsed.status().message());
    const auto features = DeclaredFeatures(parsed->spec);
    REQUIRE(features.status().message() == "");
    return std::string(BuildModel(parsed->spec, *features, &parsed->lines).status().message());
  };
  const std::string ids =
      "    - Input: {name: clicks, dtype: int64, ragged: true, max_length: 4}\n";
  const std::string bag =
      "    - EmbeddingBag: {name: bag, inputs: clicks, input_dim: 9, output_dim: 2}\n";
  CHECK(error(job, ids + bag) == "");
  CHECK_THAT(error(job, "    - Input: {name: clicks, dtype: int64, ragged: true}\n" + bag),
             Catch::Contains("job.yaml:3: ragged: it needs `max_length`"));
  CHECK_THAT(error(job, "    - Input: {name: clicks, ragged: true, max_length: 4}\n" + bag),
             Catch::Contains("job.yaml:3: ragged: it needs `dtype`"));
  CHECK_THAT(error(job,
                   "    - Input: {name: clicks, dtype: int64, shape: [4], ragged: true, "
                   "max_length: 4}\n" +
                       bag),
             Catch::Contains("job.yaml:3: ragged: the lists have no shape"));
  CHECK_THAT(error(job, ids + "    - Embedding: {name: bag, inputs: clicks, input_dim: 9, "
                              "output_dim: 2}\n"),
             Catch::Contains("layer \"bag\" (Embedding): its input \"clicks\" is ragged, and only "
                             "EmbeddingBag reads such lists"));
  CHECK_THAT(error(job, ids + "    - EmbeddingBag: {name: bag, inputs: clicks, input_dim: 9, "
                              "output_dim: 2, padding: 0}\n"),
             Catch::Contains("`padding` is for lists of one length, and \"clicks\" is ragged"));
  CHECK_THAT(error(job, ids + "    - Input: {name: w, shape: [4]}\n" +
                            "    - EmbeddingBag: {name: bag, inputs: [clicks, w], input_dim: 9, "
                            "output_dim: 2}\n"),
             Catch::Contains("ids and weights must both be ragged"));
  CHECK_THAT(error(RaggedJob("generator: {name: houses, records: 9}"), ids + bag),
             Catch::Contains("ragged: the source generator has no lists"));
  CHECK_THAT(
      error(job, "    - Input: {name: clicks, shape: [4], dtype: string}\n" + bag),
      Catch::Contains("layer \"bag\" (EmbeddingBag): its input \"clicks\" has the dtype string, "
                      "and ids are integers: give the column \"clicks\" Hashing"));
  CHECK_THAT(error(RaggedJob("json_lines: {path: a.jsonl}"), ids + bag),
             Catch::Contains("ragged: give the source json_lines its `columns`"));
}

}  // namespace
}  // namespace cohort
