#include "common/cluster/tf_config.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kTutorial[] = R"({
  "cluster": {"worker": ["localhost:1", "localhost:2"], "ps": ["localhost:3"],
              "chief": ["localhost:4"]},
  "task": {"type": "worker", "index": 1}, "environment": "cloud", "rpc_layer": "grpc"})";

TEST_CASE("the tutorial's TF_CONFIG") {
  const auto config = ParseTfConfig(kTutorial);
  REQUIRE(config.ok());
  REQUIRE(config->task == Task{Role::kWorker, 1});
  REQUIRE(config->cluster.count(Role::kWorker) == 2);
  REQUIRE(config->cluster.Find({Role::kPs, 0}) == Address{"localhost", 3});
  REQUIRE(config->cluster.AllTasks().size() == 4);
  REQUIRE(*TaskOfRole(*config, Role::kWorker) == Task{Role::kWorker, 1});
}

TEST_CASE("every form that TensorFlow accepts is accepted") {
  const std::pair<const char*, Task> cases[] = {
      // An index as a string, and a missing index.
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": "0"}})", {Role::kPs, 0}},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps"}})", {Role::kPs, 0}},
      // A sparse dictionary, beside unknown keys.
      {R"({"cluster": {"worker": {"7": "a:1", "3": "b:1"}}, "x": [1],
           "task": {"type": "worker", "index": 7, "cloud": "y"}})",
       {Role::kWorker, 7}},
      // "master", the older name.
      {R"({"cluster": {"master": ["a:1"]}, "task": {"type": "master", "index": 0}})",
       {Role::kChief, 0}},
      {R"({"cluster": {"master": ["a:1"]}, "task": {"type": "chief", "index": 0}})",
       {Role::kChief, 0}},
      // A chief needs no entry of its own, an evaluator no cluster.
      {R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "chief", "index": 0}})",
       {Role::kChief, 0}},
      {R"({"task": {"type": "evaluator", "index": 0}})", {Role::kEvaluator, 0}},
      {R"({"cluster": {"evaluator": ["e:1"], "worker": ["a:1"]},
           "task": {"type": "evaluator", "index": 0}})",
       {Role::kEvaluator, 0}},
      {R"({"cluster": {"worker": ["[::1]:1"]}, "task": {"type": "worker", "index": 0}})",
       {Role::kWorker, 0}},
  };
  for (const auto& [json, task] : cases) {
    INFO(json);
    const auto config = ParseTfConfig(json);
    INFO(std::string(config.status().message()));
    REQUIRE(config.ok());
    REQUIRE(config->task == task);
  }
}

// The values that kubeflow/training-operator v1.9 (pkg/controller.v1/tensorflow/tensorflow.go) and
// Volcano's plugin "tensorflow" set.
TEST_CASE("TFJob and Volcano") {
  const std::string cluster =
      R"("cluster": {"chief": ["j-chief-0.ns.svc:2222"], "ps": ["j-ps-0.ns.svc:2222"],
         "worker": ["j-worker-0.ns.svc:2222", "j-worker-1.ns.svc:2222"],
         "evaluator": ["j-evaluator-0.ns.svc:2222"]})";
  const auto parse = [&](std::string_view task) {
    return ParseTfConfig(fmt::format("{{{}, \"task\": {}}}", cluster, task));
  };
  const auto tfjob = parse(R"({"type": "worker", "index": 1}, "environment": "cloud")");
  REQUIRE(tfjob.ok());
  REQUIRE(tfjob->task == Task{Role::kWorker, 1});
  REQUIRE(tfjob->cluster.count(Role::kEvaluator) == 1);
  REQUIRE(parse(R"({"type": "evaluator", "index": 0}, "environment": "cloud")").ok());
  REQUIRE(parse(R"({"type": "ps", "index": "0"})")->task == Task{Role::kPs, 0});
}

TEST_CASE("the clusters of a TFJob with dynamic workers are refused") {
  for (const char* json : {
           R"({"cluster": {"ps": ["p0:1", "p1:1"], "worker": {"1": "w1:1"}},
               "task": {"type": "worker", "index": 1}})",
           R"({"cluster": {"ps": ["p1:1"], "worker": {}}, "task": {"type": "ps", "index": 1}})",
           R"({"cluster": {"ps": [], "worker": {}}, "task": {"type": "chief", "index": 0}})",
       }) {
    INFO(json);
    const auto refused = ParseTfConfig(json);
    REQUIRE(ExitCodeOf(refused.status()) == ExitCode::kConfig);
    REQUIRE_THAT(std::string(refused.status().message()),
                 Contains("cluster.worker") &&
                     Contains("remove that key from the TFJob, so that every task gets the lists"));
  }
}

TEST_CASE("without a task section, chief and evaluator have index 0") {
  const auto config = ParseTfConfig(R"({"cluster": {"worker": ["a:1"]}, "task": {}})");
  REQUIRE(config.ok());
  REQUIRE_FALSE(config->task.has_value());
  REQUIRE(*TaskOfRole(*config, Role::kChief) == Task{Role::kChief, 0});
  REQUIRE_THAT(std::string(TaskOfRole(*config, Role::kPs).status().message()),
               Contains("TF_CONFIG: task: is missing"));
}

TEST_CASE("the binary must match the task") {
  const auto wrong = TaskOfRole(*ParseTfConfig(kTutorial), Role::kPs);
  REQUIRE_THAT(std::string(wrong.status().message()), Contains("start cohort-worker"));
  REQUIRE(ExitCodeOf(wrong.status()) == ExitCode::kConfig);
}

TEST_CASE("every malformed TF_CONFIG is an error that names the field") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "TF_CONFIG: is empty"},
      {"{", "TF_CONFIG: is not valid JSON"},
      {"[]", "TF_CONFIG: expected a dictionary, found a list"},
      {"\xff\xfe", "TF_CONFIG: is not valid JSON"},
      {R"({"cluster": []})", "cluster: expected a dictionary by task type, found a list"},
      {R"({"cluster": {"workers": ["a:1"]}})", "did you mean \"worker\"?"},
      {R"({"cluster": {"worker": "a:1"}})", "cluster.worker: expected a list"},
      {R"({"cluster": {"worker": ["a:1", 7]}})",
       "cluster.worker[1]: expected an address \"host:port\", found a number"},
      {R"({"cluster": {"worker": ["a:1", "b"]}})", "cluster.worker[1]: \"b\" has no port"},
      {R"({"cluster": {"worker": {"x": "a:1"}}})", "cluster.worker[\"x\"]: \"x\" is not a number"},
      {R"({"cluster": {"worker": {"-1": "a:1"}}})", "cluster.worker[\"-1\"]: -1 is negative"},
      {R"({"cluster": {"worker": {"1": "a:1", "01": "b:1"}}})", "index 1 is named twice"},
      {R"({"cluster": {"worker": ["a:1"], "ps": ["a:1"]}})",
       "cluster.worker[0]: a:1 is the address of cluster.ps[0] too"},
      {R"({"cluster": {"chief": ["a:1", "a:2"]}})", "cluster.chief: 2 tasks, but at most one"},
      {R"({"cluster": {"evaluator": ["a:1", "a:2"]}})", "cluster.evaluator: 2 tasks"},
      {R"({"cluster": {"chief": ["a:1"], "master": ["a:2"]}})", "name the same task"},
      {R"({"task": []})", "task: expected "},
      {R"({"task": {"index": 0}})", "task.type: is missing"},
      {R"({"task": {"type": 3, "index": 0}})", "task.type: expected a string, found a number"},
      {R"({"task": {"type": "wrker", "index": 0}})", "task.type: \"wrker\" is not a task type"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": "one"}})",
       "task.index: \"one\" is not a number"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0.5}})",
       "task.index: 0.5 is not a task index"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": [0]}})",
       "task.index: expected a number, found a list"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -2}})",
       "task.index: -2 is negative"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}})",
       "task.index: cluster.ps has no task 1"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
       "cluster.ps is missing"},
      {R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 1}})",
       "task.index: 1, but a cluster has at most one chief"},
      {R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 99999999999999999999}})",
       "task.index: "},
  };
  for (const auto& [json, message] : cases) {
    INFO(json);
    const auto config = ParseTfConfig(json);
    REQUIRE_FALSE(config.ok());
    REQUIRE_THAT(std::string(config.status().message()),
                 Catch::StartsWith("TF_CONFIG: ") && Contains(message));
    REQUIRE(ExitCodeOf(config.status()) == ExitCode::kConfig);
  }
}

TEST_CASE("MakeTfConfig and ParseTfConfig are inverse") {
  ClusterSpec cluster = ParseTfConfig(kTutorial)->cluster;
  cluster.Set({Role::kEvaluator, 0}, {"::1", 9});
  const auto again = ParseTfConfig(MakeTfConfig(cluster, {Role::kPs, 0}));
  REQUIRE(again->task == Task{Role::kPs, 0});
  for (const Task task : cluster.AllTasks()) {
    REQUIRE(again->cluster.Find(task) == cluster.Find(task));
  }
  cluster.Set({Role::kWorker, 9}, {"far", 1});
  const auto sparse = ParseTfConfig(MakeTfConfig(cluster, {Role::kWorker, 9}));
  REQUIRE(sparse->cluster.Find({Role::kWorker, 9}) == Address{"far", 1});
}

// Random changes must give a config or an error, and nothing else.
TEST_CASE("a mutilated TF_CONFIG never crashes") {
  uint64_t state = 42;
  int errors = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = kTutorial;
    for (int i = 0; i < 3; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text[(state >> 33) % text.size()] = static_cast<char>(state >> 25);
    }
    errors += ParseTfConfig(text).ok() ? 0 : 1;
  }
  REQUIRE(errors > 1000);
}

}  // namespace
}  // namespace cohort
