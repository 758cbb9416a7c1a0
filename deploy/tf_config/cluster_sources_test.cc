#include "deploy/tf_config/cluster_sources.h"

#include <catch2/catch.hpp>
#include <map>

#include "common/base/exit_code.h"

namespace cohort {
namespace {

using Catch::Contains;
using Variables = std::map<std::string, std::string>;

Environment Of(const Variables& variables) {
  return [&variables](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  };
}

LayoutOptions Counts(int ps, int workers, bool evaluator = false) {
  LayoutOptions options;
  options.counts = {ps, workers, evaluator};
  return options;
}

// "chief:0 a:2222, ps:0 b:2222": all tasks of a cluster.
std::string Text(const absl::StatusOr<FoundCluster>& found) {
  INFO(found.status().ToString());
  REQUIRE(found.ok());
  std::string text;
  for (const Task task : found->cluster.AllTasks()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", task.ToString(),
                        found->cluster.Find(task)->ToString());
  }
  return text;
}

// The step of `srun -N 3 --ntasks-per-node 2`, as seen by one of its tasks.
Variables Step(int rank, int node) {
  return {{"SLURM_STEP_NODELIST", "n[1-3]"},      {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
          {"SLURM_JOB_NODELIST", "n[1-9]"},       {"SLURM_TASKS_PER_NODE", "9(x9)"},
          {"SLURM_PROCID", std::to_string(rank)}, {"SLURM_NODEID", std::to_string(node)}};
}

TEST_CASE("a Slurm step becomes a cluster; its ranks are chief, servers, workers, evaluator") {
  Variables variables = Step(4, 2);
  auto found = ClusterOfSlurm(Counts(2, -1, true), Of(variables));
  CHECK(Text(found) ==
        "chief:0 n1:2222, worker:0 n2:2223, worker:1 n3:2222, ps:0 n1:2223, ps:1 n2:2222, "
        "evaluator:0 n3:2223");
  CHECK(found->own == Task{Role::kWorker, 1});

  variables = Step(4, 1);
  variables["SLURM_DISTRIBUTION"] = "cyclic:block,NoPack";
  found = ClusterOfSlurm(Counts(2, 3), Of(variables));
  CHECK(Text(found) ==
        "chief:0 n1:2222, worker:0 n1:2223, worker:1 n2:2223, worker:2 n3:2223, ps:0 n2:2222, "
        "ps:1 n3:2222");
  CHECK(found->own == Task{Role::kWorker, 1});
}

TEST_CASE("a Slurm job without a step has the variables of the job") {
  const Variables variables = {{"SLURM_JOB_NODELIST", "a[01-02],b"},
                               {"SLURM_TASKS_PER_NODE", "1(x2),2"},
                               {"SLURM_PROCID", "0"}};
  LayoutOptions options = Counts(1, -1);
  options.port = 4700;
  const auto found = ClusterOfSlurm(options, Of(variables));
  CHECK(Text(found) == "chief:0 a01:4700, worker:0 b:4700, worker:1 b:4701, ps:0 a02:4700");
  CHECK(found->own == Task{Role::kChief, 0});
}

TEST_CASE("what does not fit a Slurm step is refused with the variable or flag") {
  struct Case {
    const char* variable;
    const char* value;  // nullptr: not set
    ExitCode code;
    const char* error;
  };
  const Case cases[] = {
      {"SLURM_STEP_NODELIST", "n[1", ExitCode::kConfig, "SLURM_STEP_NODELIST: \"n[1\" has no"},
      {"SLURM_STEP_NODELIST", "n1", ExitCode::kConfig,
       "SLURM_STEP_NODELIST has 1 nodes, and SLURM_STEP_TASKS_PER_NODE has 3"},
      {"SLURM_STEP_TASKS_PER_NODE", "2(x", ExitCode::kConfig, "SLURM_STEP_TASKS_PER_NODE: \"2(x\""},
      {"SLURM_PROCID", nullptr, ExitCode::kConfig,
       "SLURM_PROCID is not set; --from_slurm is for a process that srun or sbatch has started"},
      {"SLURM_PROCID", "x", ExitCode::kConfig, "SLURM_PROCID: \"x\" is not a number"},
      {"SLURM_PROCID", "6", ExitCode::kConfig, "SLURM_PROCID: task 6 of 6 tasks"},
      {"SLURM_NODEID", "1", ExitCode::kConfig,
       "SLURM_NODEID: task 4 is on node 1 of the list, and its distribution puts it on n3"},
      {"SLURM_DISTRIBUTION", "arbitrary", ExitCode::kConfig,
       "SLURM_DISTRIBUTION: \"arbitrary\" is not a distribution of tasks; use block or cyclic"},
  };
  for (const Case& c : cases) {
    Variables variables = Step(4, 2);
    if (c.value == nullptr) {
      variables.erase(c.variable);
    } else {
      variables[c.variable] = c.value;
    }
    const absl::Status status = ClusterOfSlurm(Counts(1, -1), Of(variables)).status();
    CHECK_THAT(status.ToString(), Contains(c.error));
    CHECK(ExitCodeOf(status) == c.code);
  }
  const Variables variables = Step(4, 2);
  const auto wrong = [&](const LayoutOptions& options) {
    const absl::Status status = ClusterOfSlurm(options, Of(variables)).status();
    CHECK(ExitCodeOf(status) == ExitCode::kUsage);
    return status.ToString();
  };
  CHECK_THAT(wrong(Counts(5, -1)), Contains("6 tasks are too few for a chief, 5 ps, a worker"));
  CHECK_THAT(wrong(Counts(1, 5)), Contains("6 tasks are too few for a chief, 1 ps, 5 workers"));
  CHECK_THAT(wrong(Counts(1, 2)), Contains("--workers: the step has 6 tasks, and the cluster 4"));
  CHECK_THAT(wrong(Counts(-1, 2)), Contains("--ps: -1 is negative"));
  LayoutOptions options = Counts(1, -1);
  options.port = 65535;
  CHECK_THAT(wrong(options), Contains("--port: 65536, the port of task 1 on n1"));
  CHECK_THAT(ClusterOfSlurm(Counts(1, 1), Of({})).status().ToString(),
             Contains("SLURM_JOB_NODELIST is not set"));
}

}  // namespace
}  // namespace cohort
