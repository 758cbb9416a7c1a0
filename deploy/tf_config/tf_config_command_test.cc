#include "deploy/tf_config/tf_config_command.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/cluster/tf_config.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

constexpr char kLab[] = "name: lab\ncluster: {ps: [a:1, b:1], worker: [a:2], evaluator: [b:9]}\n";

absl::StatusOr<std::string> Run(const std::vector<std::string>& arguments) {
  TfConfigOptions options;
  FlagSet flags("tf-config", "");
  AddTfConfigFlags(&flags, &options);
  const ParsedFlags parsed = flags.Parse(arguments);
  INFO(parsed.err);
  REQUIRE(parsed.run);
  return MakeTfConfigs(options, [](const char*) { return nullptr; });
}

std::string ErrorOf(const std::vector<std::string>& arguments, ExitCode code) {
  const absl::Status status = Run(arguments).status();
  INFO(status.ToString());
  CHECK(ExitCodeOf(status) == code);
  return status.ToString();
}

TEST_CASE("tf-config writes one file per task, with one line and no quotes around the value") {
  const testing::TestDirectory directory;
  const std::string lab = directory.Write("lab.yaml", kLab);
  const std::string out = directory / "a/b";
  const auto written = Run({lab, out});
  INFO(written.status().ToString());
  REQUIRE(written.ok());
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    names.insert(entry.path().filename());
    CHECK_THAT(*written, Contains(entry.path().string() + "\n"));
  }
  // The chief has no address in this cluster, and is a task all the same.
  CHECK(names == std::set<std::string>{"chief-0.env", "ps-0.env", "ps-1.env", "worker-0.env",
                                       "evaluator-0.env"});
  const std::string text = testing::ReadAllBytes(out + "/ps-1.env");
  CHECK(text.find('\n') == text.size() - 1);
  REQUIRE(text.starts_with("TF_CONFIG={"));
  const auto config = ParseTfConfig(text.substr(10));
  INFO(config.status().ToString());
  REQUIRE(config.ok());
  CHECK(config->task == Task{Role::kPs, 1});
  CHECK(config->cluster.Find({Role::kWorker, 0}) == Address{"a", 2});
  const auto chief = ParseTfConfig(testing::ReadAllBytes(out + "/chief-0.env").substr(10));
  REQUIRE(chief.ok());
  CHECK(chief->task == Task{Role::kChief, 0});
  REQUIRE(Run({lab, out}).ok());  // files are replaced
}

TEST_CASE("tf-config prints the TF_CONFIG of one task") {
  const testing::TestDirectory directory;
  const std::string lab = directory.Write("lab.yaml", kLab);
  const auto config = [&](const std::vector<std::string>& arguments) {
    const auto text = Run(arguments);
    INFO(text.status().ToString());
    REQUIRE(text.ok());
    CHECK(text->find('\n') == text->size() - 1);
    return ParseTfConfig(*text).value();
  };
  CHECK(config({lab, "--task", "ps:1"}).task == Task{Role::kPs, 1});
  CHECK(config({lab, "--task=chief"}).task == Task{Role::kChief, 0});
}

TEST_CASE("a wrong command line of tf-config is refused") {
  const testing::TestDirectory directory;
  const std::string lab = directory.Write("lab.yaml", kLab);
  CHECK_THAT(ErrorOf({}, ExitCode::kUsage), Contains("give CLUSTER.yaml, or --from_slurm"));
  CHECK_THAT(ErrorOf({"--from_slurm", "a", "b"}, ExitCode::kUsage),
             Contains("unexpected argument \"b\""));
  CHECK_THAT(ErrorOf({lab, "--task", "ps:2"}, ExitCode::kUsage),
             Contains("--task: the cluster has no ps:2; it has 2"));
  for (const char* task : {"server:0", "ps:x", "ps:-1", "ps:"}) {
    CHECK_THAT(ErrorOf({lab, "--task", task}, ExitCode::kUsage), Contains("is not a task"));
  }
  CHECK_THAT(ErrorOf({lab, "out", "--task", "ps:0"}, ExitCode::kUsage),
             Contains("--task prints one TF_CONFIG; remove \"out\""));
  CHECK_THAT(ErrorOf({directory / "none.yaml"}, ExitCode::kNoInput), Contains("cannot be opened"));
  CHECK_THAT(ErrorOf({directory.Write("bad.yaml", "name: a\n")}, ExitCode::kData),
             Contains("bad.yaml:1: cluster: is missing"));
  CHECK_THAT(ErrorOf({"--from_slurm"}, ExitCode::kConfig), Contains("SLURM_JOB_NODELIST"));
  CHECK_THAT(ErrorOf({lab, lab + "/x"}, ExitCode::kCantCreate), Contains("cannot be created"));
  std::filesystem::create_directories(directory / "d/ps-0.env/x");
  CHECK_THAT(ErrorOf({lab, directory / "d"}, ExitCode::kCantCreate),
             Contains("ps-0.env cannot be written"));
}

}  // namespace
}  // namespace cohort
