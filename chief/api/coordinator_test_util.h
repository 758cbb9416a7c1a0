#ifndef COHORT_CHIEF_API_COORDINATOR_TEST_UTIL_H_
#define COHORT_CHIEF_API_COORDINATOR_TEST_UTIL_H_

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "chief/api/coordinator.h"
#include "chief/api/fake_peers_test_util.h"
#include "common/graph/expr.h"
#include "common/graph/program_builder.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/rpc_test_util.h"
#include "common/testing/directory_test_util.h"

namespace cohort::testing {

// A coordinator and its fake peers. Start starts another incarnation of the coordinator.
struct Cluster {
  Cluster(int workers, int servers) : log(Logger::Discard()) {
    for (int i = 0; i < workers; ++i) Add({Role::kWorker, i});
    for (int i = 0; i < servers; ++i) Add({Role::kPs, i});
    options.job = "job";
    options.checkpoint_dir = directory.path();
    options.chief_incarnation = 1;
    options.clock = &clock;
    options.log = log.get();
    options.task_timeout_s = 30;
  }
  ~Cluster() { coordinator.reset(); }
  void Add(Task task) {
    auto peer = std::make_unique<FakePeer>(task);
    options.cluster.Set(task, peer->address());
    (task.role == Role::kWorker ? workers : servers).push_back(std::move(peer));
  }
  absl::Status CreateVariables() {
    v1::VariableSpec variable;
    variable.set_name("w");
    variable.set_dtype(v1::FLOAT32);
    variable.add_dims(10);
    v1::PartitionerSpec partitioner;
    partitioner.set_class_name("FixedShards");
    partitioner.set_num_shards(2);
    v1::OptimizerSpec optimizer;
    optimizer.mutable_rule()->set_class_name("SGD");
    return coordinator->CreateVariables({&variable, 1}, optimizer, partitioner, "");
  }
  void Start() {
    coordinator.reset();
    ++options.chief_incarnation;
    auto started = ClusterCoordinator::Start(options);
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    coordinator = *std::move(started);
    const absl::Status made = CreateVariables();
    INFO(made.ToString());
    REQUIRE(made.ok());
    ProgramBuilder b("step");
    const Expr x = b.Input("x", {DType::kFloat32, {}});
    b.AddOutput("y", x * 2.0);
    step = *coordinator->RegisterStep(*std::move(b).Build());
  }

  testing::TestDirectory directory;
  RealClock clock;
  std::unique_ptr<Logger> log;
  std::vector<std::unique_ptr<FakePeer>> workers;
  std::vector<std::unique_ptr<FakePeer>> servers;
  CoordinatorOptions options;
  std::unique_ptr<ClusterCoordinator> coordinator;
  StepFunction step;
};

inline std::vector<Tensor> Arguments(int n) {
  return std::vector<Tensor>(static_cast<size_t>(n), Tensor::Scalar<float>(1));
}

inline void RequireOk(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

// Waits until `what` holds; the coordinator's threads make it true.
inline void Await(const std::function<bool()>& what) {
  const auto limit = TestDeadline();
  while (!what()) {
    REQUIRE(CompletionLoop::Clock::now() < limit);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Holds a thread until the test releases it.
class Hold {
 public:
  // Called by the thread.
  void Come() {
    here_ = true;
    in_time_ = released_.get_future().wait_for(TestLimit()) == std::future_status::ready;
  }
  bool here() const { return here_; }
  void Release() { released_.set_value(); }
  bool in_time() const { return in_time_; }

 private:
  std::atomic<bool> here_{false};
  std::atomic<bool> in_time_{false};
  std::promise<void> released_;
};

}  // namespace cohort::testing

#endif  // COHORT_CHIEF_API_COORDINATOR_TEST_UTIL_H_
