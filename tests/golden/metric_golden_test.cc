// Compares metrics with the real Keras (make_metric_golden.py): over several closures, as the chief
// folds them, and in the evaluator.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <map>

#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/data/dataset.h"
#include "common/exec/metric_fold.h"
#include "common/exec/test_device.h"
#include "common/metrics/metric_proto.h"
#include "common/model/metrics/metric.h"
#include "common/os/directory.h"
#include "common/testing/directory_test_util.h"
#include "evaluator/checkpoint_evaluator.h"
#include "proto/checkpoint.pb.h"
#include "proto/metrics.pb.h"
#include "tests/golden/golden_data.h"
#include "tests/golden/golden_model.h"

namespace cohort::golden {
namespace {

using nlohmann::json;

constexpr int64_t kCapacity = 8;
constexpr double kTolerance = 1e-6;
constexpr int kWeightPosition = 7, kGroupPosition = 6;

v1::ConfigValue ConfigValueOf(const json& value) {
  if (value.is_null()) return v1::ConfigValue();
  if (value.is_boolean()) return ConfigOf(value.get<bool>());
  if (value.is_number_integer()) return ConfigOf(value.get<int64_t>());
  if (value.is_number()) return ConfigOf(value.get<double>());
  if (value.is_array()) {
    v1::ConfigValue list;
    for (const json& item : value) *list.mutable_list()->add_values() = ConfigValueOf(item);
    return list;
  }
  return ConfigOf(std::string_view(value.get_ref<const std::string&>()));
}

// A program of one metric of its arguments, the label and the prediction.
std::unique_ptr<Executable> MetricProgram(const json& c, bool by_class) {
  ProgramBuilder b("metric");
  const int batch = b.AddSymbol("batch", kCapacity);
  const auto classes = c["classes"].get<int64_t>();
  ValueType label{DType::kInt64, {{kCapacity, batch}}};
  if (!by_class) label = {DType::kFloat32, {{kCapacity, batch}, {classes}}};
  const Expr y = b.Input("y", label);
  const Expr p = b.Input("p", {DType::kFloat32, {{kCapacity, batch}, {classes}}});
  v1::ClassConfig config;
  config.set_class_name(c["class_name"].get<std::string>());
  for (const auto& [name, value] : c["config"].items()) {
    (*config.mutable_config())[name] = ConfigValueOf(value);
  }
  const auto known = Metrics().Find(config.class_name());
  REQUIRE(known.ok());
  const auto complete = CompleteConfig((*known)->schema, config);
  INFO(complete.status().ToString());
  REQUIRE(complete.ok());
  MetricInput input{p, y, {}};
  if (!c["weighted"].is_null()) {
    ValueType weight{DType::kFloat32, {{kCapacity, batch}}};
    if (c["kind"] == "class_map") weight.dims.push_back({classes});
    input.weight = b.Input("weight", weight);
  }
  if (c["class_name"] == "GroupAUC") {
    const Expr group = b.Input("group", {DType::kInt64, {{kCapacity, batch}}});
    input.column = [group](const std::string&) { return group; };
  }
  const auto metric = MakeMetric(*complete, input);
  INFO(metric.status().ToString());
  REQUIRE(metric.ok());
  AddMetric("metric", *metric, &b);
  auto program = std::move(b).Build();
  INFO(program.status().ToString());
  REQUIRE(program.ok());
  auto executable = Executable::Compile(*std::move(program), testing::OnTestDevice());
  INFO(executable.status().ToString());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

// As `batch` of make_metric_golden.py.
std::vector<Tensor> LabelsAndPredictions(const json& c, int step, int64_t size) {
  const auto classes = c["classes"].get<int64_t>();
  const auto quantum = c["quantum"].get<double>();
  const auto seed = c["seed"].get<uint64_t>();
  Tensor p(DType::kFloat32, {size, classes});
  for (int64_t i = 0; i < p.num_elements(); ++i) {
    double u = Uniform(InputSeed(seed, step, 0), static_cast<uint64_t>(i));
    if (quantum > 0) u = std::floor(u * (quantum + 1)) / quantum;
    p.mutable_values<float>()[static_cast<size_t>(i)] = static_cast<float>(u);
  }
  const std::string kind = c["kind"];
  const uint64_t labels = InputSeed(seed, step, kLabelPosition);
  const auto change = [&p](auto f) {
    for (float& v : p.mutable_values<float>()) v = f(v);
  };
  if (kind == "class_map") {
    const auto most = static_cast<float>(quantum);
    change([most](float v) { return std::nearbyint(v * most); });
    const Tensor drawn = IntegerTensor(labels, {size, classes}, static_cast<int64_t>(quantum) + 1);
    Tensor y(DType::kFloat32, {size, classes});
    std::ranges::transform(drawn.values<int64_t>(), y.mutable_values<float>().begin(),
                           [](int64_t v) { return static_cast<float>(v); });
    return {y, p};
  }
  if (kind == "sorted_ids") {
    change([classes](float v) { return std::floor(v * static_cast<float>(classes)); });
  }
  if (kind == "sparse" || kind == "sorted_ids") {
    return {IntegerTensor(labels, {size}, classes), p};
  }
  if (kind == "unit") {
    return {UniformTensor(labels, DType::kFloat32, {size, classes}, 0, 1), p};
  }
  if (kind == "regression") {
    return {UniformTensor(labels, DType::kFloat32, {size, classes}, -1, 1), p};
  }
  Tensor y = Tensor::Zeros(DType::kFloat32, {size, classes});
  const auto to = y.mutable_values<float>();
  if (kind == "one_hot") {
    const Tensor drawn = IntegerTensor(labels, {size}, classes);
    for (int64_t i = 0; i < size; ++i) {
      to[static_cast<size_t>(i * classes + drawn.values<int64_t>()[static_cast<size_t>(i)])] = 1;
    }
    return {y, p};
  }
  const Tensor drawn = IntegerTensor(labels, {size, classes}, kind == "skewed" ? 10 : 2);
  for (size_t i = 0; i < to.size(); ++i) to[i] = drawn.values<int64_t>()[i] == 1 ? 1 : 0;
  return {y, p};
}

// As `weights_of` of make_metric_golden.py, after labels and predictions.
std::vector<Tensor> WeightedBatch(const json& c, int step, int64_t size) {
  std::vector<Tensor> batch = LabelsAndPredictions(c, step, size);
  if (c["weighted"].is_null()) return batch;
  Dims dims = {size};
  if (c["kind"] == "class_map") dims.push_back(c["classes"].get<int64_t>());
  const uint64_t seed = InputSeed(c["seed"].get<uint64_t>(), step, kWeightPosition);
  if (c["weighted"] == "unit") {
    batch.push_back(UniformTensor(seed, DType::kFloat32, dims, 0, 1));
    return batch;
  }
  const Tensor drawn = IntegerTensor(seed, dims, 4);
  Tensor whole(DType::kFloat32, dims);
  std::ranges::transform(drawn.values<int64_t>(), whole.mutable_values<float>().begin(),
                         [](int64_t v) { return static_cast<float>(v); });
  batch.push_back(std::move(whole));
  return batch;
}

// The same with the groups of records.
std::vector<Tensor> BatchOf(const json& c, int step, int64_t size) {
  std::vector<Tensor> batch = WeightedBatch(c, step, size);
  if (c["class_name"] != "GroupAUC") return batch;
  const auto groups = c["config"]["num_groups"].get<int64_t>();
  batch.push_back(IntegerTensor(InputSeed(c["seed"].get<uint64_t>(), step, kGroupPosition), {size},
                                groups + 1));
  return batch;
}

// Two steps are a closure, whose state goes over the wire to the chief.
TEST_CASE("metrics over several closures are Keras'") {
  const json file = ReadGolden("metrics.json");
  const auto sizes = file["sizes"].get<std::vector<int64_t>>();
  REQUIRE(file["cases"].size() >= 100);
  for (const json& c : file["cases"]) {
    INFO(c["class_name"] << " " << c["config"] << " of " << c["kind"] << ", weights "
                         << c["weighted"]);
    const auto executable = MetricProgram(c, c["kind"] == "sparse" || c["kind"] == "sorted_ids");
    std::vector<MetricState> folded;
    MetricFold closure;
    for (size_t step = 0; step < sizes.size(); ++step) {
      REQUIRE(executable->Bind(BatchOf(c, static_cast<int>(step), sizes[step])).ok());
      REQUIRE(executable->Prepare({}).ok());
      REQUIRE(executable->Run().ok());
      closure.Add(*executable);
      if (step % 2 == 0) continue;
      MetricValues wire;
      MetricsToProto(closure.States(executable->program()), &wire);
      REQUIRE(CheckMetricValues(wire).ok());
      FoldMetrics(MetricsFromProto(wire), &folded);
      closure.Clear();
      INFO("after step " << step);
      const json expected =
          c["values"][step].is_array() ? c["values"][step] : json::array({c["values"][step]});
      REQUIRE(folded.size() == expected.size());
      for (size_t i = 0; i < folded.size(); ++i) {
        const double value = expected[i].get<double>();
        CHECK(std::abs(folded[i].Value() - value) <= kTolerance * std::max(1.0, std::abs(value)));
      }
    }
  }
}

// The job of `evaluation`, over a CSV file with the records.
std::string EvaluationJob(const json& c) {
  std::string metrics;
  for (const auto& metric : c["metrics"]) metrics += metric.get<std::string>() + ", ";
  return fmt::format(R"(
model:
  sequential:
    - Input: {{name: x, shape: [3]}}
    - Dense: {{units: {}, activation: relu}}
    - Dense: {{units: 1, activation: sigmoid}}
compile: {{loss: binary_crossentropy, metrics: [{}]}}
data:
  batch_size: {}
  train:
    csv: {{path: records.csv}}
    label: y
    transforms:
      - {{columns: [x0, x1, x2], output: x}}
  validation: {{skip: 0}}
checkpoint: {{directory: unused}}
)",
                     c["hidden"].get<int>(), metrics, c["batch_size"].get<int>());
}

void WriteRecords(const json& c, const std::string& path) {
  const auto seed = c["seed"].get<uint64_t>();
  const auto records = c["records"].get<int64_t>();
  const Tensor x = UniformTensor(InputSeed(seed, 0, 0), DType::kFloat32, {records, 3}, -1, 1);
  const Tensor y = IntegerTensor(InputSeed(seed, 0, kLabelPosition), {records}, 2);
  std::ofstream out(path);
  out << "x0,x1,x2,y\n";
  for (size_t i = 0; i < static_cast<size_t>(records); ++i) {
    for (size_t k = 0; k < 3; ++k) out << fmt::format("{:.9g},", x.values<float>()[3 * i + k]);
    out << y.values<int64_t>()[i] << "\n";
  }
}

// A checkpoint of the model with the weights of the golden file; returns its directory.
std::string WriteCheckpoint(const json& c, const v1::JobSpec& spec, const BuiltModel& model,
                            const std::string& directory) {
  const std::string at = directory + "/ckpt-0-1-1";
  REQUIRE(MakeDirectories(at).ok());
  v1::Manifest manifest;
  manifest.set_job("golden");
  manifest.set_generation(1);
  manifest.set_cut(1);
  *manifest.mutable_job_spec() = spec;
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<Tensor> weights;
  for (const v1::VariableSpec& variable : model.variables) {
    const Dims dims(variable.dims().begin(), variable.dims().end());
    const auto rows = static_cast<uint64_t>(dims[0]);
    entries.push_back(
        {ShardTensorName{variable.name(), "", 0, rows}.ToString(), DType::kFloat32, dims});
    weights.push_back(
        UniformTensor(WeightSeed(c["seed"].get<uint64_t>(), static_cast<int>(weights.size())),
                      DType::kFloat32, dims, -1, 1));
    *manifest.mutable_layout()->add_variables() = variable;
  }
  auto writer = SafetensorsWriter::Create(at + "/ps-0.safetensors", entries, {});
  REQUIRE(writer.ok());
  for (const Tensor& w : weights) REQUIRE((*writer)->Append(w.raw(), w.num_bytes()).ok());
  const auto written = (*writer)->Finish();
  REQUIRE(written.ok());
  v1::SnapshotFile* file = manifest.add_files();
  file->set_name("ps-0.safetensors");
  file->set_bytes(written->bytes);
  file->set_crc32(written->crc32);
  REQUIRE(CommitManifest(at, manifest).ok());
  return at;
}

TEST_CASE("the evaluator's metrics are those of Keras' evaluate") {
  const json c = ReadGolden("metrics.json")["evaluation"];
  testing::TestDirectory directory;
  WriteRecords(c, directory / "records.csv");
  const auto job = ParseJob(EvaluationJob(c), "job.yaml");
  INFO(job.status().ToString());
  REQUIRE(job.ok());
  const DataOptions data{.data_dir = directory.path()};
  const auto dataset = Dataset::Open(job->spec.data().validation(), data);
  INFO(dataset.status().ToString());
  REQUIRE(dataset.ok());
  const auto model = BuildModel(job->spec, (*dataset)->features());
  INFO(model.status().ToString());
  REQUIRE(model.ok());
  const std::string checkpoint = WriteCheckpoint(c, job->spec, *model, directory.path());
  CheckpointEvaluator evaluator({.data = data});
  const auto evaluation = evaluator.Evaluate(checkpoint);
  INFO(evaluation.status().ToString());
  REQUIRE(evaluation.ok());
  const std::map<std::string, double> values(evaluation->record.metrics.begin(),
                                             evaluation->record.metrics.end());
  REQUIRE(values.size() == c["values"].size());
  for (const auto& [name, expected] : c["values"].items()) {
    INFO(name);
    REQUIRE(values.contains(name));
    CHECK(std::abs(values.at(name) - expected.get<double>()) <= kTolerance);
  }
}

}  // namespace
}  // namespace cohort::golden
