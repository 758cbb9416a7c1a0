#include "deploy/launcher/report_run.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;

constexpr char kRecords[] =
    R"({"time":1.0,"set":"train","kind":"epoch","epoch":1,"step":20,"loss":0.5,"steps_per_second":10.0}
{"time":3.0,"set":"validation","kind":"epoch","epoch":1,"step":20,"loss":0.4}
)";

v1::JobSpec JobWith(double rate) {
  v1::JobSpec job;
  job.set_name("small");
  job.mutable_fit()->set_epochs(2);
  v1::ClassConfig& optimizer = *job.mutable_compile()->mutable_optimizer_class();
  optimizer.set_class_name("SGD");
  (*optimizer.mutable_config())["learning_rate"].set_f(rate);
  return job;
}

// A checkpoint as a job with callbacks writes it.
void WriteCheckpoint(const std::string& directory, double rate) {
  v1::Manifest manifest;
  manifest.set_job("small 1");
  manifest.set_timeline(1);
  manifest.set_generation(1);
  manifest.set_cut(1);
  *manifest.mutable_job_spec() = JobWith(rate);
  manifest.mutable_epochs()->set_steps_per_epoch(20);
  for (uint64_t epoch : {1, 2}) {
    v1::EpochRecord& record = *manifest.add_history();
    record.set_epoch(epoch);
    (*record.mutable_values())["loss"] = 1.0 / static_cast<double>(epoch);
    (*record.mutable_values())["val_loss"] = 2.0 / static_cast<double>(epoch);
  }
  const std::string path = directory + "/" + CheckpointId{1, 1, 1}.ToString();
  fs::create_directories(path);
  REQUIRE(CommitManifest(path, manifest).ok());
}

// A run directory of `cohort local` whose job has not ended.
void WriteRun(const std::string& directory, double rate) {
  fs::create_directories(directory + "/logs");
  std::ofstream(directory + "/logs/metrics.jsonl") << kRecords;
  WriteCheckpoint(directory + "/checkpoints", rate);
}

TEST_CASE("a report reads a run directory, a log directory or a checkpoint directory") {
  testing::TestDirectory dir;
  WriteRun(dir / "run", 0.125);
  for (const char* path : {"run", "run/", "run/logs", "run/logs/"}) {
    INFO(path);
    const auto text = ReportRun({.run = dir / path, .html = ""});
    INFO(std::string(text.status().message()));
    REQUIRE(text.ok());
    CHECK_THAT(*text, Contains("job            small\n") && Contains("steps          20\n") &&
                          Contains("loss    training    0.5000  0.5000  1\n") &&
                          Contains("loss    validation  0.4000") && Contains("no report.json"));
    CHECK(ReadRun(dir / path)->keys.at("compile.optimizer.learning_rate") == "0.125");
  }
  // Without logs the curves are those of the checkpoint.
  for (const char* path : {"run/checkpoints", "run/checkpoints/ckpt-1-1-1"}) {
    INFO(path);
    const auto run = ReadRun(dir / path);
    if (std::string_view(path).ends_with("1")) {
      CHECK(absl::IsNotFound(run.status()));
      continue;
    }
    REQUIRE(run.ok());
    const auto curve = run->Curve("validation", "epoch", "loss");
    REQUIRE(curve.size() == 2);
    CHECK(curve[1].x == 40);
    CHECK(curve[1].y == 1);
  }
}

TEST_CASE("what is no run gives an error that names what is") {
  testing::TestDirectory dir;
  CHECK(ExitCodeOf(ReadRun("").status()) == ExitCode::kUsage);
  CHECK(ExitCodeOf(ReadRun(dir / "none").status()) == ExitCode::kNoInput);
  const auto empty = ReadRun(dir.path());
  CHECK(ExitCodeOf(empty.status()) == ExitCode::kNoInput);
  CHECK_THAT(std::string(empty.status().message()), Contains("name the --run_dir"));
  std::ofstream(dir / "file") << "x";
  CHECK_FALSE(ReadRun(dir / "file").ok());
}

TEST_CASE("the page goes to the file that --html names") {
  testing::TestDirectory dir;
  WriteRun(dir / "run", 0.1);
  const auto said = ReportRun({.run = dir / "run", .html = dir / "out.html"});
  REQUIRE(said.ok());
  CHECK(*said == dir / "out.html" + "\n");
  CHECK_THAT(testing::ReadAllBytes(dir / "out.html"), Contains("<h3>loss</h3>"));
  const auto nowhere = ReportRun({.run = dir / "run", .html = dir / "no/out.html"});
  CHECK(ExitCodeOf(nowhere.status()) == ExitCode::kCantCreate);
}

TEST_CASE("a comparison names the hyper-parameter that differs") {
  testing::TestDirectory dir;
  WriteRun(dir / "a", 0.1);
  WriteRun(dir / "b", 0.25);
  CHECK(ExitCodeOf(CompareRuns({.runs = {dir / "a"}, .html = ""}).status()) == ExitCode::kUsage);
  const auto text =
      CompareRuns({.runs = {dir / "a", dir / "b", dir / "a"}, .html = dir / "all.html"});
  REQUIRE(text.ok());
  CHECK_THAT(*text, Contains("compile.optimizer.learning_rate  0.1") && Contains("0.25") &&
                        !Contains("fit.epochs") && Contains(dir / "a (2)"));
  CHECK_THAT(testing::ReadAllBytes(dir / "all.html"), Contains("<h3>loss, validation</h3>"));
}

}  // namespace
}  // namespace cohort
