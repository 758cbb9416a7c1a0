#include "deploy/launcher/run_task.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/base/flags.h"

namespace cohort {
namespace {

using Arguments = std::vector<std::string>;

absl::StatusOr<Arguments> Run(const Arguments& line, const char* tf_config) {
  FlagSet flags("run", "x");
  const RunFlags run(&flags);
  const ParsedFlags parsed = flags.Parse(line);
  INFO(parsed.err);
  REQUIRE(parsed.run);
  return run.DaemonArguments(tf_config, "/bin");
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

TEST_CASE("errors name what is missing") {
  const auto no_job = Run({}, Config(R"({"type": "chief", "index": 0})").c_str());
  REQUIRE(ExitCodeOf(no_job.status()) == ExitCode::kUsage);
  REQUIRE_THAT(std::string(no_job.status().message()), Catch::Contains("JOB.yaml"));
  REQUIRE(ExitCodeOf(Run({}, nullptr).status()) == ExitCode::kConfig);
  REQUIRE(Exec({"/nonexistent/cohort-ps"}) == 71);
}

}  // namespace
}  // namespace cohort
