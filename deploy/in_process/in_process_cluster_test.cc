#include "deploy/in_process/in_process_cluster.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "chief/api/partitioners.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"
#include "common/testing/test_directory.h"

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

TEST_CASE("an in-process cluster needs at least one task of each role") {
  const auto none = InProcessCluster::Start({.workers = 0});
  REQUIRE_THAT(std::string(none.status().message()), Contains("workers: 0"));
}

}  // namespace
}  // namespace cohort
