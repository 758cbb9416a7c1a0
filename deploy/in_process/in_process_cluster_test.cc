#include "deploy/in_process/in_process_cluster.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "chief/api/model.h"
#include "chief/api/partitioners.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"
#include "common/model/model_builder.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Catch::Contains;

void RequireOk(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  RequireOk(value.status());
  return *std::move(value);
}

// w counts the examples that were trained: the gradient of each is -1, the learning rate 1.
struct CountingLoop {
  explicit CountingLoop(ClusterCoordinator* c) : coordinator(c) {
    VariableSet variables;
    const Variable w = variables.Add("w", {2}, "zeros");
    RequireOk(variables.CreateOn(coordinator, {"SGD", {{"learning_rate", 1.0}}},
                                 FixedShardsPartitioner(2)));
    step = Value(coordinator->RegisterStep(Value(TraceStep("count", 4, [&](StepTrace* trace) {
      const Expr x = trace->Input("x", DType::kFloat32);
      const Expr sum = ReduceSum(trace->Read(w));
      trace->Output("mean", trace->Minimize(x * sum * -1.0));
    }))));
  }
  void Run(int steps) {
    const std::vector<float> ones(4, 1.0F);
    for (int i = 0; i < steps; ++i) {
      RequireOk(coordinator->Schedule(step, {Tensor::FromValues<float>({4}, ones)}).status());
    }
    RequireOk(coordinator->Join());
  }
  std::vector<float> w() {
    const Tensor value = Value(coordinator->ReadVariables()).at("w");
    return {value.values<float>().begin(), value.values<float>().end()};
  }

  ClusterCoordinator* coordinator;
  StepFunction step;
};

TEST_CASE("a chief trains on a cluster of its own process") {
  std::string directory;
  {
    const auto cluster = Value(InProcessCluster::Start({.workers = 3, .parameter_servers = 2}));
    directory = cluster->directory();
    CHECK(cluster->spec().count(Role::kWorker) == 3);
    CHECK(cluster->spec().count(Role::kPs) == 2);
    const auto coordinator = Value(ClusterCoordinator::Start(cluster->coordinator_options()));
    CountingLoop loop(coordinator.get());
    loop.Run(50);
    CHECK(loop.w() == std::vector<float>{50, 50});
    CHECK(fs::exists(directory + "/tasks/worker-2.log"));
  }
  CHECK(!fs::exists(directory));
}

TEST_CASE("the next chief of a cluster continues with its variables") {
  testing::TestDirectory directory;
  {
    const auto cluster = Value(InProcessCluster::Start(
        {.workers = 1, .parameter_servers = 2, .directory = directory.path()}));
    for (int chief = 1; chief <= 2; ++chief) {
      const auto coordinator = Value(ClusterCoordinator::Start(cluster->coordinator_options()));
      CountingLoop loop(coordinator.get());
      loop.Run(10);
      CHECK(loop.w() == std::vector<float>(2, static_cast<float>(10 * chief)));
    }
  }
  CHECK(fs::exists(directory / "checkpoints"));
  // Another cluster restores the checkpoint.
  const auto cluster = Value(InProcessCluster::Start({.directory = directory.path()}));
  const auto coordinator = Value(ClusterCoordinator::Start(cluster->coordinator_options()));
  CountingLoop loop(coordinator.get());
  CHECK(loop.w() == std::vector<float>{20, 20});
}

// The losses of five steps on batches of numbers, on a cluster of its own.
std::vector<double> TrainingLosses(const std::vector<v1::VariableSpec>& variables,
                                   const v1::OptimizerSpec& optimizer, const Program& program) {
  const auto cluster = Value(InProcessCluster::Start({.workers = 1, .parameter_servers = 2}));
  const auto coordinator = Value(ClusterCoordinator::Start(cluster->coordinator_options()));
  RequireOk(coordinator->CreateVariables(variables, optimizer, FixedShardsPartitioner(2), ""));
  const StepFunction step = Value(coordinator->RegisterStep(program));
  std::vector<double> losses;
  for (int i = 0; i < 5; ++i) {
    std::vector<int64_t> ids;
    std::vector<float> labels;
    for (int k = 0; k < 24; ++k) ids.push_back((k * 5 + i * 3) % 8);
    for (int k = 0; k < 8; ++k) labels.push_back(static_cast<float>((k + i) % 2));
    const auto value = coordinator->Schedule(step, {Tensor::FromValues<int64_t>({8, 3}, ids),
                                                    Tensor::FromValues<float>({8, 1}, labels)});
    losses.push_back(Value(Value(value).Fetch()).metrics[0].Value());
  }
  return losses;
}

TEST_CASE("a model of layers trains as the model of a job file does") {
  constexpr char kJob[] = R"(name: same
seed: 11
model:
  sequential:
    - Input: {shape: [3], dtype: int64}
    - Embedding: {input_dim: 8, output_dim: 4, embeddings_initializer: {RandomNormal: {seed: 3}}}
    - GlobalAveragePooling1D: {}
    - Dense: {units: 5, activation: relu, kernel_initializer: {RandomNormal: {stddev: 0.5}}}
    - Dropout: {rate: 0.5}
    - Dense: {units: 1, activation: sigmoid}
compile: {loss: binary_crossentropy, optimizer: {Adam: {learning_rate: 0.05}}}
data: {batch_size: 8, train: {csv: {path: none.csv}, label: y}}
)";
  const JobFile job = Value(ParseJob(kJob, "job.yaml"));
  const auto features = Value(DeclaredFeatures(job.spec));
  const BuiltModel expected = Value(BuildModel(job.spec, features));

  VariableSet variables(/*seed=*/11);
  const Model model =
      BuildModel(&variables, {{"Input", {{"shape", {3}}, {"dtype", "int64"}}},
                              {"Embedding",
                               {{"input_dim", 8},
                                {"output_dim", 4},
                                {"embeddings_initializer", {"RandomNormal", {{"seed", 3}}}}}},
                              "GlobalAveragePooling1D",
                              {"Dense",
                               {{"units", 5},
                                {"activation", "relu"},
                                {"kernel_initializer", {"RandomNormal", {{"stddev", 0.5}}}}}},
                              {"Dropout", {{"rate", 0.5}}},
                              {"Dense", {{"units", 1}, {"activation", "sigmoid"}}}});
  const auto specs = Value(variables.Specs());
  REQUIRE(specs.size() == expected.variables.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    CHECK(specs[i].SerializeAsString() == expected.variables[i].SerializeAsString());
  }
  const Program train = Value(TraceStep("train", 8, [&](StepTrace* step) {
    const Expr ids = step->Input("ids", DType::kInt64, {3});
    const Expr label = step->Input("label", DType::kFloat32, {1});
    step->Minimize(step->Loss("BinaryCrossentropy", model(step, ids), label));
  }));
  const auto optimizer = Value(MakeOptimizerSpec({"Adam", {{"learning_rate", 0.05}}}));
  const std::vector<double> losses = TrainingLosses(specs, optimizer, train);
  CHECK(losses == TrainingLosses(expected.variables, expected.optimizers[0], expected.train));
  CHECK(losses.back() < losses.front());
}

TEST_CASE("an in-process cluster needs at least one task of each role") {
  const auto none = InProcessCluster::Start({.workers = 0});
  REQUIRE_THAT(std::string(none.status().message()), Contains("workers: 0"));
}

}  // namespace
}  // namespace cohort
