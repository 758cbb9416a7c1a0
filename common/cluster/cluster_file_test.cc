#include "common/cluster/cluster_file.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/cluster/tf_config.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

constexpr char kLab[] = R"(# The machines of the lab.
name: lab
cluster:
  chief: [node1:4700]
  ps: [node1:4711, node2:4711]
  worker:
    - "[fd00::1]:4701"
    - node2:4701
  evaluator: [10.0.0.7:4790]
)";

std::string ErrorOf(std::string_view yaml) {
  const auto parsed = ParseClusterFile(yaml, "c.yaml");
  INFO(std::string(yaml));
  REQUIRE(!parsed.ok());
  CHECK(ExitCodeOf(parsed.status()) == ExitCode::kData);
  return std::string(parsed.status().message());
}

TEST_CASE("a cluster file has a name and the tasks by role") {
  const auto file = ParseClusterFile(kLab, "c.yaml");
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  CHECK(file->name == "lab");
  CHECK(file->cluster.AllTasks().size() == 6);
  CHECK(file->cluster.Find({Role::kWorker, 0}) == Address{"fd00::1", 4701});
  CHECK(file->cluster.Find({Role::kPs, 1}) == Address{"node2", 4711});
  // The same cluster in TF_CONFIG.
  const auto config = ParseTfConfig(MakeTfConfig(file->cluster, {Role::kPs, 1}));
  REQUIRE(config.ok());
  for (const Task task : file->cluster.AllTasks()) {
    CHECK(config->cluster.Find(task) == file->cluster.Find(task));
  }
}

TEST_CASE("a cluster file may name tasks by index, and the chief as master") {
  const auto file = ParseClusterFile(
      "name: a.b_c-1\ncluster: {master: [a:1], worker: {0: b:1, '2': b:2}}\n", "c.yaml");
  INFO(file.status().ToString());
  REQUIRE(file.ok());
  CHECK(file->cluster.Find({Role::kChief, 0}) == Address{"a", 1});
  CHECK(!file->cluster.Find({Role::kWorker, 1}).has_value());
  CHECK(file->cluster.Find({Role::kWorker, 2}) == Address{"b", 2});
}

TEST_CASE("an error in a cluster file has its line, its field and what to do") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "c.yaml:1: the file is empty; it should have `name` and `cluster`"},
      {"name: a\ncluster: [\n", "c.yaml:3: not YAML: "},
      {"- a", "c.yaml:1: expected a mapping of keys, found a list; for example"},
      {"cluster: {ps: [a:1]}\n", "c.yaml:1: name: is missing; add it, for example `name: lab`"},
      {"name: a\n", "c.yaml:1: cluster: is missing; add the tasks, for example"},
      {"name: a\ncluster: {}\n", "c.yaml:1: cluster: is missing"},
      {"name: a b\n", "c.yaml:1: name: \"a b\" is not a name; use 1 to 63 letters"},
      {"name: [a]\n", "c.yaml:1: name: a list is not a name"},
      {"name: a\nclusters: {}\n", "c.yaml:2: unknown key \"clusters\"; did you mean \"cluster\"?"},
      {"name: a\nx: {}\n", "c.yaml:2: unknown key \"x\"; the keys are name and cluster"},
      {"name: a\nname: b\n", "c.yaml:2: key \"name\" is given twice"},
      {"name: a\n---\nname: b\n", "c.yaml:3: a cluster is one YAML document"},
      {"name: a\ncluster: a:1\n", "c.yaml:2: cluster: expected a mapping of keys, found \"a:1\""},
      {"name: a\ncluster:\n  workers: [a:1]\n",
       "c.yaml:3: cluster: \"workers\" is not a task type (chief, worker, ps, evaluator); did you "
       "mean \"worker\"?"},
      {"name: a\ncluster:\n  ps: a:1\n",
       "c.yaml:3: cluster.ps: expected a list of addresses, found \"a:1\""},
      {"name: a\ncluster:\n  ps:\n    - a:1\n    - b\n", "c.yaml:5: cluster.ps[1]: "},
      {"name: a\ncluster:\n  ps:\n    - {a: 1}\n",
       "c.yaml:4: cluster.ps[0]: expected an address \"host:port\", found a mapping; quote an "
       "IPv6"},
      {"name: a\ncluster:\n  ps: [[::1]:4701]\n", "c.yaml:3: "},
      {"name: a\ncluster:\n  ps: [a:1]\n  worker: [a:1]\n",
       "c.yaml:4: cluster.worker[0]: a:1 is the address of cluster.ps[0] too"},
      {"name: a\ncluster:\n  chief: [a:1]\n  master: [b:1]\n",
       "c.yaml:4: cluster.master: chief and master name the same task"},
      {"name: a\ncluster:\n  chief: [a:1, b:1]\n",
       "c.yaml:3: cluster.chief: 2 tasks, but at most one is allowed"},
      {"name: a\ncluster:\n  ps: {x: a:1}\n",
       "c.yaml:3: cluster.ps: \"x\" is not a task index; tasks are counted 0, 1, ..."},
      {"name: a\ncluster:\n  ps: {0: a:1, 00: b:1}\n",
       "c.yaml:3: cluster.ps[\"00\"]: index 0 is named twice"},
  };
  for (const auto& [yaml, error] : cases) CHECK_THAT(ErrorOf(yaml), Catch::StartsWith(error));
}

TEST_CASE("a cluster file that cannot be read is named") {
  const testing::TestDirectory directory;
  const std::string path = directory / "lab.yaml";
  auto missing = ReadClusterFile(path);
  CHECK(missing.status().message() == path + ": cannot be opened: No such file or directory");
  CHECK(ExitCodeOf(missing.status()) == ExitCode::kNoInput);
  CHECK(ExitCodeOf(ReadClusterFile(directory.path()).status()) == ExitCode::kNoInput);
  directory.Write("lab.yaml", kLab);
  CHECK(ReadClusterFile(path)->name == "lab");
  directory.Write("lab.yaml", std::string(5 << 20, '#'));
  CHECK_THAT(std::string(ReadClusterFile(path).status().message()),
             Catch::Contains("the file has more than"));
}

}  // namespace
}  // namespace cohort
