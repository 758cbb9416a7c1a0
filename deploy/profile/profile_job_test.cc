#include "deploy/profile/profile_job.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "common/exec/step_profile.h"
#include "common/testing/directory_test_util.h"
#include "deploy/profile/local_steps.h"

namespace cohort {
namespace {

// Two dense layers over a CSV file of 64 rows.
std::string WriteJob(const testing::TestDirectory& dir, const std::string& data = "data.csv") {
  std::ofstream csv(dir.path() + "/data.csv");
  csv << "a,b,label\n";
  for (int i = 0; i < 64; ++i) csv << i % 7 << ',' << i % 5 << ',' << i % 3 << '\n';
  const std::string path = dir.path() + "/job.yaml";
  std::ofstream(path) << "name: profiled\n"
                         "model:\n"
                         "  functional:\n"
                         "    - Input: {name: a, shape: [1]}\n"
                         "    - Dense: {name: hidden, units: 16, activation: relu, inputs: a}\n"
                         "    - Dense: {name: out, units: 3, inputs: hidden}\n"
                         "compile: {optimizer: adam, loss: sparse_categorical_crossentropy, "
                         "from_logits: true}\n"
                         "data:\n"
                         "  batch_size: 8\n"
                         "  train:\n"
                         "    csv: {path: "
                      << dir.path() + "/" + data
                      << "}\n"
                         "    transforms: [{column: label, dtype: int64}]\n"
                         "    label: label\n"
                         "fit: {epochs: 1}\n";
  return path;
}

TEST_CASE("a profile names layers, ops and phases, and writes a trace") {
  const testing::TestDirectory dir;
  const std::string trace = dir.path() + "/trace.json";
  const auto text =
      ProfileJob({.job = WriteJob(dir), .steps = 6, .warmup = 2, .threads = 1, .trace = trace});
  REQUIRE(text.ok());
  for (const char* part :
       {"6 steps of batch 8", "a step takes", "optimizer", "hidden", "out", "matmul", "GFLOP/s"}) {
    INFO(part);
    CHECK(text->find(part) != std::string::npos);
  }
  std::ifstream file(trace);
  const auto json = nlohmann::json::parse(file);
  std::set<std::string> names;
  int steps = 0;
  for (const auto& event : json["traceEvents"]) {
    CHECK(event["ph"] == "X");
    CHECK(event["dur"].get<double>() >= 0);
    names.insert(event["name"].get<std::string>());
    steps += event["name"] == "step" ? 1 : 0;
  }
  CHECK(steps == 6);
  CHECK(names.contains("hidden: matmul"));
  CHECK(names.contains("optimizer"));
}

TEST_CASE("a profile of steps alone has no kernels") {
  const testing::TestDirectory dir;
  const auto text = ProfileJob({.job = WriteJob(dir), .steps = 3, .step_only = true});
  REQUIRE(text.ok());
  CHECK(text->find("a step takes") != std::string::npos);
  CHECK(text->find("matmul") == std::string::npos);
}

TEST_CASE("steps without data use made-up batches, and the text names the reason") {
  const testing::TestDirectory dir;
  const auto text = ProfileJob({.job = WriteJob(dir, "missing.csv"), .steps = 2});
  REQUIRE(text.ok());
  CHECK(text->find("batches are made up") != std::string::npos);
}

TEST_CASE("steps with variables on the device train as those with variables here") {
  const testing::TestDirectory dir;
  const std::string job = WriteJob(dir);
  const auto devices = OpenDevices({.devices = "simulated:0"});
  REQUIRE(devices.ok());
  std::vector<std::vector<double>> losses;
  std::vector<int64_t> bytes;
  for (const bool on_device : {false, true}) {
    const auto steps = LocalSteps::Open(job, {}, {.devices = *devices}, on_device);
    INFO(steps.status());
    REQUIRE(steps.ok());
    StepProfile profile(&(*steps)->program());
    losses.emplace_back();
    for (int i = 0; i < 20; ++i) {
      REQUIRE((*steps)->Run(&profile).ok());
      losses.back().push_back((*steps)->executable()->metric_values()[0]);
    }
    bytes.push_back((*steps)->executable()->transfer_bytes());
    // Two slots and the gradient of each of 1 * 16 + 16 + 16 * 3 + 3 weights.
    CHECK((*steps)->update_bytes() == 7 * 4 * (16 + 16 + 48 + 3));
  }
  CHECK(losses[0] == losses[1]);
  CHECK(bytes[0] != bytes[1]);
  const auto text = ProfileJob(
      {.job = job, .steps = 2, .devices = {.devices = "simulated:0"}, .variables_on_device = true});
  REQUIRE(text.ok());
  CHECK(text->find("variables live on the device") != std::string::npos);
  for (const char* names : {"cpu", "simulated:0,simulated:1"}) {
    const auto refused = ProfileJob(
        {.job = job, .steps = 1, .devices = {.devices = names}, .variables_on_device = true});
    CHECK(absl::IsInvalidArgument(refused.status()));
  }
}

TEST_CASE("flags of a profile out of range, and a trace without a directory, are errors") {
  const testing::TestDirectory dir;
  const std::string job = WriteJob(dir);
  CHECK(absl::IsInvalidArgument(ProfileJob({.job = job, .steps = 0}).status()));
  CHECK(absl::IsInvalidArgument(ProfileJob({.job = job, .threads = 0}).status()));
  const auto text = ProfileJob({.job = job, .steps = 1, .trace = dir.path() + "/none/t.json"});
  CHECK(absl::IsUnavailable(text.status()));
  CHECK(absl::IsNotFound(ProfileJob({.job = dir.path() + "/none.yaml"}).status()));
}

TEST_CASE("local steps train over several epochs") {
  const testing::TestDirectory dir;
  const auto steps = LocalSteps::Open(WriteJob(dir), {}, {});
  REQUIRE(steps.ok());
  StepProfile profile(&(*steps)->program());
  (*steps)->executable()->SetObserver(&profile);
  std::vector<double> losses;
  for (int i = 0; i < 80; ++i) {  // ten epochs
    REQUIRE((*steps)->Run(&profile).ok());
    losses.push_back((*steps)->executable()->metric_values()[0]);
  }
  CHECK(losses[79] < losses[7]);
  CHECK(profile.steps() == 80);
  double flops = 0;
  for (const StepProfile::Row& row : profile.ByOp()) {
    CHECK(row.seconds >= 0);
    if (row.name == "matmul") flops = row.flops;
  }
  // Forward and the gradients of both kernels and of the hidden layer: 2 m n k each.
  CHECK(flops == 80 * 2.0 * 8 * (16 * 1 * 2 + 3 * 16 * 3));
}

}  // namespace
}  // namespace cohort
