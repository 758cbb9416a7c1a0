#include "deploy/launcher/run_task.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/base/flags.h"

namespace cohort {
namespace {

using Arguments = std::vector<std::string>;

absl::StatusOr<std::vector<TaskCommand>> Commands(const Arguments& line, const char* tf_config) {
  FlagSet flags("run", "x");
  const RunFlags run(&flags);
  const ParsedFlags parsed = flags.Parse(line);
  INFO(parsed.err);
  REQUIRE(parsed.run);
  return run.Commands(tf_config, "/bin");
}

absl::StatusOr<Arguments> Run(const Arguments& line, const char* tf_config) {
  auto commands = Commands(line, tf_config);
  if (!commands.ok()) return commands.status();
  REQUIRE(commands->size() == 1);
  return commands->front().argv;
}

std::string Config(const std::string& task) {
  return R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": )" + task + "}";
}

TEST_CASE("one command line serves every task") {
  const Arguments line = {"job.yaml", "--threads", "2",           "--checkpoint_dir=/c",
                          "--fresh",  "--once",    "--apply_log", "/l"};
  REQUIRE(*Run(line, Config(R"({"type": "chief", "index": 0})").c_str()) ==
          Arguments{"/bin/cohort-chief", "--threads=2", "--checkpoint_dir=/c", "--fresh=true",
                    "job.yaml"});
  REQUIRE(*Run(line, Config(R"({"type": "worker", "index": 0})").c_str()) ==
          Arguments{"/bin/cohort-worker", "--threads=2"});
  REQUIRE(*Run(line, Config(R"({"type": "ps", "index": 0})").c_str()) ==
          Arguments{"/bin/cohort-ps", "--threads=2", "--apply_log=/l"});
  REQUIRE(*Run(line, R"({"task": {"type": "evaluator", "index": 0}})") ==
          Arguments{"/bin/cohort-evaluator", "--threads=2", "--checkpoint_dir=/c", "--once=true"});
}

TEST_CASE("without a task the one with a job is the chief") {
  const std::string cluster = R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}})";
  REQUIRE(*Run({"job.yaml"}, cluster.c_str()) == Arguments{"/bin/cohort-chief", "job.yaml"});
  REQUIRE(ExitCodeOf(Run({}, cluster.c_str()).status()) == ExitCode::kConfig);
}

TEST_CASE("a cluster without servers has replicas, and the first one runs the chief") {
  const Arguments line = {"job.yaml",       "--threads=2",         "--fresh", "--checkpoint_dir=/c",
                          "--admin_port=1", "--chief_admin_port=2"};
  const auto config = [](const char* task) {
    return fmt::format(R"({{"cluster": {{"chief": ["c:1"], "worker": ["a:1"]}}, "task": {}}})",
                       task);
  };
  const auto first = Commands(line, config(R"({"type": "chief", "index": 0})").c_str());
  REQUIRE(first.ok());
  REQUIRE(first->size() == 2);
  CHECK(first->at(0).task == "worker:0");
  CHECK(first->at(0).argv == Arguments{"/bin/cohort-replica", "--threads=2", "--admin_port=1"});
  CHECK(first->at(1).argv == Arguments{"/bin/cohort-chief", "--checkpoint_dir=/c",
                                       "--strategy=multi_worker_mirrored", "--admin_port=2",
                                       "job.yaml"});
  CHECK(first->at(1).first_start == Arguments{"--fresh"});
  const auto second = Commands({}, config(R"({"type": "worker", "index": 0})").c_str());
  REQUIRE(second.ok());
  REQUIRE(second->size() == 1);
  CHECK(second->at(0).task == "worker:1");
  CHECK(second->at(0).argv == Arguments{"/bin/cohort-replica"});
  CHECK(second->at(0).environment.at(0).second.find("\"index\":1") != std::string::npos);
}

TEST_CASE("errors name what is missing") {
  const auto no_job = Run({}, Config(R"({"type": "chief", "index": 0})").c_str());
  REQUIRE(ExitCodeOf(no_job.status()) == ExitCode::kUsage);
  REQUIRE_THAT(std::string(no_job.status().message()), Catch::Contains("JOB.yaml"));
  REQUIRE(ExitCodeOf(Run({}, nullptr).status()) == ExitCode::kConfig);
  REQUIRE(ExitCodeOf(Exec({"/nonexistent/cohort-ps"})) == ExitCode::kOs);
}

}  // namespace
}  // namespace cohort
