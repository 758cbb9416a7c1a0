// A job that differs from that of the checkpoints in its directory: it starts from their weights,
// and they move to a directory of their own. The chief is killed after the change.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/weights/initial_weights.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kKilled = 128 + 9;
constexpr int kSteps = 10;  // per epoch of 320 records in batches of 32

void Replace(const std::string& from, const std::string& to, std::string* text) {
  REQUIRE(text->find(from) != std::string::npos);
  text->replace(text->find(from), from.size(), to);
}

// Another optimizer, a layer before the last one, and a table that keeps its values.
std::string ChangedJob() {
  std::string job = RecommenderJob(3, 0);
  Replace("RMSprop: {learning_rate: 0.01}", "Adam: {learning_rate: 0.01}", &job);
  Replace("output_dim: 20}", "output_dim: 20, trainable: false}", &job);
  Replace("    - Dense: {units: 1,",
          "    - Dense: {units: 20, activation: relu, name: extra}\n    - Dense: {units: 1,", &job);
  return job;
}

std::vector<std::string> CheckpointsIn(const std::string& directory) {
  const auto entries = ListCheckpoints(directory);
  REQUIRE(entries.ok());
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : *entries) names.push_back(entry.id.ToString());
  return names;
}

v1::Manifest NewestIn(const std::string& directory) {
  v1::Manifest manifest;
  const auto newest = NewestReadable(directory, &manifest);
  REQUIRE(newest.ok());
  REQUIRE(newest->has_value());
  return manifest;
}

// The values that the servers of a new job read.
std::vector<uint8_t> FirstValues(const std::string& checkpoint_dir, const std::string& name) {
  const auto reader = SafetensorsReader::Open(checkpoint_dir + "/" + kInitialValuesName);
  REQUIRE(reader.ok());
  const TensorInfo* const info = (*reader)->Find(name);
  REQUIRE(info != nullptr);
  std::vector<uint8_t> bytes(info->bytes);
  REQUIRE((*reader)->ReadBytes(*info, 0, bytes.size(), bytes.data()).ok());
  return bytes;
}

void StartsFromTheWeights(Body body, bool kills) {
  const ClusterDirectory directory("change");
  MiniClusterOptions options{
      .workers = 2, .job_yaml = RecommenderJob(2, 0), .directory = directory.path()};
  std::string checkpoints;
  {
    Scenario s(body, "change", options);
    s.Check(s->StartAll());
    s.Finish();
    checkpoints = s->checkpoint_dir();
  }
  const std::vector<std::string> former_names = CheckpointsIn(checkpoints);
  const Weights former = TrainedWeightsOf(checkpoints).weights;
  for (int ps = 0; ps < 2; ++ps) {
    std::filesystem::remove(fmt::format("{}/apply-ps-{}.log", directory.path(), ps));
  }
  options.job_yaml = ChangedJob();
  Scenario s(body, "change", options);
  if (kills) {
    for (int i = 0; i < 2; ++i) {
      s.Check(s->Start(TaskRole::kPs, i));
      s.Check(s->Start(TaskRole::kWorker, i));
    }
    // The servers have the weights; the first checkpoint of the new job is not on the disk.
    s.Check(s->Start(TaskRole::kChief, 0, {"--crash_point", "chief.cut.snapshotted:1"}));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == kKilled);
    s.Said(TaskRole::kChief, 0,
           {"job_changed", "key=compile.optimizer.class_name", "old=RMSprop", "new=Adam"});
    s.Said(TaskRole::kChief, 0,
           {"job_starts_from_weights", "former-1/ckpt-", "3 of 5 variables", "extra/kernel"});
    CHECK(CheckpointsIn(checkpoints).empty());
    s.Check(s->Start(TaskRole::kChief, 0));
    s.Said(TaskRole::kChief, 0, {"initial_weights_kept"});
  } else {
    s.Check(s->StartAll());
    s.Said(TaskRole::kChief, 0, {"job_starts_from_weights", "3 of 5 variables", "extra/kernel"});
  }
  const ApplyReport report = s.Finish();
  CHECK(report.applied == 2u * 3 * kSteps);
  CHECK(report.timelines == 1);
  const v1::Manifest newest = NewestIn(checkpoints);
  CHECK(newest.finished());
  CHECK(newest.epoch() == 3);
  CHECK(newest.step() == 3 * kSteps);

  // The former job is as it was, and its directory is one that a job could continue in.
  CHECK(CheckpointsIn(checkpoints + "/former-1") == former_names);
  const bool kept = TrainedWeightsOf(checkpoints + "/former-1").weights == former;
  CHECK(kept);
  CHECK(!std::filesystem::exists(checkpoints + "/former-2"));
  const Weights own = TrainedWeightsOf(checkpoints).weights;
  CHECK(own.contains({"extra/kernel", ""}));
  CHECK(own.contains({"extra/kernel", "velocity"}));
  for (const std::string name : {"embedding/embeddings", "dense/kernel", "dense/bias"}) {
    INFO(name);
    const bool same = FirstValues(checkpoints, name) == former.at({name, ""});
    CHECK(same);
    const bool is_trained = own.at({name, ""}) != former.at({name, ""});
    CHECK(is_trained == (name != "embedding/embeddings"));
  }
}

void StartsUndisturbed(Body body) { StartsFromTheWeights(body, /*kills=*/false); }
COHORT_BOTH_BODIES("a job with another optimizer and layer starts from the weights",
                   StartsUndisturbed)

TEST_CASE("a chief that is killed after the change begins it once", "[processes]") {
  StartsFromTheWeights(Body::kProcesses, /*kills=*/true);
}

// Its servers are alive and know more than the newest checkpoint, which lies inside an epoch.
void ChangesTheBatchSizeInsideAnEpoch(Body body) {
  constexpr int kRecords = 3200;  // 100 steps: more than are in flight when a checkpoint is taken
  MiniClusterOptions options{
      .workers = 2, .job_yaml = RecommenderJob(9, 10, kRecords), .proxied = true};
  Scenario s(body, "inside", options);
  s.Pace(0);
  s.Check(s->StartAll());
  do {
    s.Said(TaskRole::kChief, 0, {" checkpoint cut="});
  } while (NewestIn(s->checkpoint_dir()).step() == 0);
  s.Check(s->Kill(TaskRole::kChief, 0));
  const v1::Manifest before = NewestIn(s->checkpoint_dir());
  REQUIRE(before.step() % 100 != 0);
  std::string job = RecommenderJob(1, 10, kRecords);
  Replace("batch_size: 32", "batch_size: 64", &job);
  std::ofstream(s->job_file()) << job;
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Said(TaskRole::kChief, 0, {"job_changed", "key=data.batch_size", "old=32", "new=64"});
  s.Said(TaskRole::kChief, 0, {"job_starts_from_weights", "3 of 3 variables"});
  s.Said(TaskRole::kChief, 0, {"tablets_assigned", "initial_weights.safetensors", "status=OK"});
  s.Release(0);
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(120)) == 0);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(s.ExitOf(TaskRole::kWorker, i, seconds(20)) == 0);
    REQUIRE(s.ExitOf(TaskRole::kPs, i, seconds(20)) == 0);
  }
  const v1::Manifest newest = NewestIn(s->checkpoint_dir());
  CHECK(newest.finished());
  CHECK(newest.step() == 50);
  CHECK(NewestIn(s->checkpoint_dir() + "/former-1").step() == before.step());
}
COHORT_BOTH_BODIES("another batch size inside an epoch starts from the weights",
                   ChangesTheBatchSizeInsideAnEpoch)

}  // namespace
}  // namespace cohort
