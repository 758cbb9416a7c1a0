// Weights that workers read where the servers have them, in a cluster whose tasks die.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 12;  // 10 steps each

// Steps differ in nothing but the layer in the middle: 1024 x 17000 floats, 66.4 MiB.
std::string Job() {
  std::string job = RecommenderJob(kEpochs, 0);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    job.replace(job.find(from), from.size(), to);
  };
  replace("    - Dense: {units: 1, activation: sigmoid}",
          "    - Dense: {units: 1024}\n    - Dense: {units: 17000}\n"
          "    - Dense: {units: 1, activation: sigmoid}");
  replace("optimizer: {RMSprop: {learning_rate: 0.01}}",
          "optimizer: {SGD: {learning_rate: 1.0e-6}}");
  replace("  partitioner: {FixedShards: {num_shards: 2}}", "  pull_ahead: 0");
  return job;
}

// A worker that dies while it reads version after version leaves nothing behind that stops or
// changes the others.
void SurvivesAReader(Body body) {
  Scenario s(body, "in_place", MiniClusterOptions{.servers = 1, .workers = 2, .job_yaml = Job()});
  s.Check(s->StartAll());
  s.Said(TaskRole::kWorker, 0, {"reads_weights_in_place"}, seconds(120));
  s.Said(TaskRole::kWorker, 1, {"reads_weights_in_place"}, seconds(120));
  s.Bounce(TaskRole::kWorker, 1);
  s.Said(TaskRole::kWorker, 1, {"reads_weights_in_place"}, seconds(120));
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == 10u * kEpochs);
  REQUIRE(report.timelines == 1);
  REQUIRE(s->LogTail(TaskRole::kWorker, 0, 1000).find("memory_not_shared") == std::string::npos);
}

// Within one process, workers come over TCP.
TEST_CASE("a job with a large layer survives a worker that reads it in place") {
  SurvivesAReader(Body::kProcesses);
}

}  // namespace
}  // namespace cohort
