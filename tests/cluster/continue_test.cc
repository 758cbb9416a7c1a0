// What may change between two runs of a job: each scenario runs a part of a job, changes one key,
// and continues on a new cluster; on both bodies.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kConfig = 78;
constexpr int kEpochs = 2;
constexpr int kMore = 4;
constexpr int kSteps = 10;  // per epoch of 320 records in batches of 32

std::string Replaced(std::string job, const std::string& from, const std::string& to) {
  const size_t at = job.find(from);
  REQUIRE(at != std::string::npos);
  return job.replace(at, from.size(), to);
}

struct KeyCase {
  const char* key;   // as the log names it
  const char* from;  // the text of the job file
  const char* to;
  int steps = kSteps;  // per epoch after the change
  int servers = 2;     // after the change
};

// A job without any of these keys, so that each of them can be inserted.
std::string Job(int epochs) {
  return Replaced(RecommenderJob(epochs, 0), "strategy:\n", "strategy:\n  closures_in_flight: 8\n");
}

const std::vector<KeyCase> kCases = {
    {"compile.optimizer.learning_rate", "learning_rate: 0.01", "learning_rate: 0.002"},
    {"compile.optimizer.rho", "learning_rate: 0.01", "learning_rate: 0.01, rho: 0.8"},
    {"checkpoint.every_steps", "every_steps: 0", "every_steps: 7"},
    {"checkpoint.max_to_keep", "every_steps: 0", "every_steps: 0, max_to_keep: 2"},
    {"report.log_dir", "checkpoint:", "report: {log_dir: logs/other}\ncheckpoint:"},
    {"strategy.task_timeout_s", "strategy:\n", "strategy:\n  task_timeout_s: 77\n"},
    {"strategy.closures_in_flight", "closures_in_flight: 8", "closures_in_flight: 3"},
    {"strategy.placement", "strategy:\n", "strategy:\n  placement: round_robin\n"},
    {"strategy.partitioner.num_shards", "num_shards: 2", "num_shards: 4"},
    {"fit.steps_per_execution", "fit: {", "fit: {steps_per_execution: 3, "},
    {"data.batch_size", "batch_size: 32", "batch_size: 64", 5},
    {"data.batch_size", "batch_size: 32", "batch_size: 10", 32},
    {"compile.metrics", "metrics: [binary_accuracy]", "metrics: []"},
    {"mixed_precision.dtype", "name: recommender", "mixed_precision: float16\nname: recommender"},
    {"servers", "name: recommender", "name: recommender", kSteps, 3},
};

v1::Manifest Newest(const std::string& directory) {
  v1::Manifest manifest;
  const auto newest = NewestReadable(directory, &manifest);
  REQUIRE(newest.ok());
  REQUIRE(newest->has_value());
  return manifest;
}

void ContinuesWithAnotherValue(Body body) {
  for (const KeyCase& c : kCases) {
    INFO(c.key << ": " << c.to);
    const ClusterDirectory directory("continue");
    MiniClusterOptions options{
        .workers = 2, .job_yaml = Job(kEpochs), .directory = directory.path()};
    {
      Scenario s(body, "continue", options);
      s.Check(s->StartAll());
      s.Finish();
    }
    for (int ps = 0; ps < 2; ++ps) {
      std::filesystem::remove(fmt::format("{}/apply-ps-{}.log", directory.path(), ps));
    }
    options.servers = c.servers;
    options.job_yaml = Replaced(Job(kMore), c.from, c.to);
    Scenario s(body, "continue", options);
    s.Check(s->StartAll());
    s.Said(TaskRole::kChief, 0, {"job_changed", fmt::format("key={} ", c.key)});
    s.Finish();
    const v1::Manifest manifest = Newest(s->checkpoint_dir());
    CHECK(manifest.finished());
    CHECK(manifest.epoch() == kMore);
    CHECK(manifest.step() == kEpochs * kSteps + (kMore - kEpochs) * static_cast<uint64_t>(c.steps));
    CHECK(manifest.servers() == static_cast<uint32_t>(c.servers));
    CHECK(manifest.format_version() == (c.steps == kSteps ? 1 : 2));
  }
}

// The chief and a server are killed in the second run with the new batch size; the job
// continues with the places of that size.
void KeepsTheNewBatchSize(Body body) {
  const ClusterDirectory directory("batch");
  MiniClusterOptions options{
      .workers = 2, .job_yaml = Job(kEpochs), .directory = directory.path(), .proxied = true};
  {
    Scenario s(body, "batch", options);
    s.Check(s->StartAll());
    s.Finish();
  }
  for (int ps = 0; ps < 2; ++ps) {
    std::filesystem::remove(fmt::format("{}/apply-ps-{}.log", directory.path(), ps));
  }
  constexpr int kSmallSteps = 40;
  constexpr int kLong = 12;  // epochs: the job does not end before the server is killed
  options.job_yaml = Replaced(Replaced(Job(kLong), "batch_size: 32", "batch_size: 8"),
                              "every_steps: 0", "every_steps: 15");
  Scenario s(body, "batch", options);
  s.Pace(0, std::chrono::milliseconds(50));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(kEpochs * kSteps + 20, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Check(s->WaitForSteps(kEpochs * kSteps + 45, seconds(60)));
  s.Bounce(TaskRole::kPs, 1);
  s.Said(TaskRole::kPs, 1, {"serving"});
  s.Release(0);
  s.Finish();
  const v1::Manifest manifest = Newest(s->checkpoint_dir());
  CHECK(manifest.epoch() == kLong);
  CHECK(manifest.step() == kEpochs * kSteps + (kLong - kEpochs) * kSmallSteps);
  CHECK(manifest.epochs().first_epoch() == kEpochs);
  CHECK(manifest.epochs().first_place() == kEpochs * kSteps);
}

// A layer of the model that runs where the data is read, and has learned its words there. The job
// ends, continues with more epochs, and its chief and a server are killed.
void KeepsALayerOfTheData(Body body) {
  const auto job = [](int epochs) {
    std::string text = Replaced(RecommenderJob(epochs, 15), "dtype: int64}",
                                "dtype: string}\n    - StringLookup: {max_tokens: 8}");
    const size_t lookup = text.find("      - {column: features, lookup");
    return text.erase(lookup, text.find('\n', lookup) + 1 - lookup);
  };
  const ClusterDirectory directory("data-layer");
  MiniClusterOptions options{
      .workers = 2, .job_yaml = job(kEpochs), .directory = directory.path(), .proxied = true};
  {
    Scenario s(body, "data-layer", options);
    s.Check(s->StartAll());
    s.Finish();
  }
  for (int ps = 0; ps < 2; ++ps) {
    std::filesystem::remove(fmt::format("{}/apply-ps-{}.log", directory.path(), ps));
  }
  constexpr int kLong = 12;  // epochs: the job does not end before the server is killed
  options.job_yaml = job(kLong);
  Scenario s(body, "data-layer", options);
  s.Pace(0, std::chrono::milliseconds(50));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps((kEpochs + 1) * kSteps, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Check(s->WaitForSteps((kEpochs + 3) * kSteps, seconds(60)));
  s.Bounce(TaskRole::kPs, 1);
  s.Said(TaskRole::kPs, 1, {"serving"});
  s.Release(0);
  s.Finish();
  CHECK(Newest(s->checkpoint_dir()).step() == kLong * kSteps);
}

// The servers are alive and know more than the newest checkpoint, in the former places.
void ChangesTheBatchSizeOfALivingCluster(Body body) {
  MiniClusterOptions options{.workers = 2, .job_yaml = Job(30), .proxied = true};
  Scenario s(body, "living", options);
  s.Pace(0);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(kSteps + 3, seconds(60)));  // there is a checkpoint of an epoch's end
  s.Check(s->Kill(TaskRole::kChief, 0));
  const v1::Manifest before = Newest(s->checkpoint_dir());
  std::ofstream(s->job_file()) << Replaced(Job(static_cast<int>(before.epoch()) + 2),
                                           "batch_size: 32", "batch_size: 64");
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Said(TaskRole::kChief, 0, {"job_changed", "key=data.batch_size", "old=32", "new=64"});
  s.Said(TaskRole::kChief, 0, {"tablets_assigned", "from=", "status=OK"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 2);
  const v1::Manifest manifest = Newest(s->checkpoint_dir());
  CHECK(manifest.step() == before.step() + 2 * 5);
  CHECK(manifest.epochs().first_place() == before.step());
}

void RefusesOtherMetricsInsideAnEpoch(Body body) {
  constexpr int kRecords = 3200;  // 100 steps: more than are in flight when a checkpoint is taken
  MiniClusterOptions options{
      .workers = 2, .job_yaml = RecommenderJob(9, 10, kRecords), .proxied = true};
  Scenario s(body, "inside", options);
  s.Pace(0);
  s.Check(s->StartAll());
  do {
    s.Said(TaskRole::kChief, 0, {" checkpoint cut="});
  } while (Newest(s->checkpoint_dir()).step() == 0);
  s.Check(s->Kill(TaskRole::kChief, 0));
  REQUIRE(Newest(s->checkpoint_dir()).step() % 100 != 0);
  std::ofstream(s->job_file()) << Replaced(options.job_yaml, "metrics: [binary_accuracy]",
                                           "metrics: [auc]");
  s.Check(s->Start(TaskRole::kChief, 0));
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kConfig);
  const std::string tail = s->LogTail(TaskRole::kChief, 0, 5);
  INFO(tail);
  CHECK(tail.find("compile.metrics: binary_accuracy -> auc (") != std::string::npos);
  CHECK(tail.find("may change only at the end of an epoch") != std::string::npos);
  std::ofstream(s->job_file()) << RecommenderJob(1, 10, kRecords);
  s.Release(0);
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Finish();
  CHECK(Newest(s->checkpoint_dir()).step() == 100);
}

COHORT_BOTH_BODIES("a job continues with another value of a key that may change",
                   ContinuesWithAnotherValue)
COHORT_BOTH_BODIES("a job that has changed its batch size survives its chief and its servers",
                   KeepsTheNewBatchSize)
COHORT_BOTH_BODIES("a job with a layer that runs where the data is read continues and is recovered",
                   KeepsALayerOfTheData)
COHORT_BOTH_BODIES("another batch size takes a living cluster back to the end of an epoch",
                   ChangesTheBatchSizeOfALivingCluster)
COHORT_BOTH_BODIES("other metrics are refused inside an epoch", RefusesOtherMetricsInsideAnEpoch)

}  // namespace
}  // namespace cohort
