// Fine-tuning: a job begins with the values of another job's checkpoint, with a frozen layer and a
// new name for the last one. A server is killed before there is any checkpoint.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "common/checkpoint/checkpoint_directory.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kKilled = 128 + 9;

void Replace(const std::string& from, const std::string& to, std::string* text) {
  REQUIRE(text->find(from) != std::string::npos);
  text->replace(text->find(from), from.size(), to);
}

// The example, on fewer records.
MiniClusterOptions MnistOptions() {
  MiniClusterOptions options{
      .workers = 2, .job_yaml = ExampleJob("mnist_mlp.yaml"), .data_dir = GeneratedDataDir()};
  Replace("epochs: 5", "epochs: 1", &options.job_yaml);
  Replace("take: 9000", "take: 1600", &options.job_yaml);
  return options;
}

MiniClusterOptions FineTuningOf(const std::string& checkpoints) {
  MiniClusterOptions options = MnistOptions();
  std::string& job = options.job_yaml;
  Replace("seed: 1", "seed: 2", &job);  // other initializers
  Replace("{units: 128, ", "{units: 128, trainable: false, ", &job);
  Replace("{units: 10, ", "{units: 10, name: head, ", &job);
  job += "initial_weights:\n  path: " + checkpoints + "\n  rename: [{from: dense_1/, to: head/}]\n";
  return options;
}

// The values and slots of the oldest checkpoint, which a job takes before its first step.
Weights OldestOf(const std::string& checkpoint_dir) {
  const auto entries = ListCheckpoints(checkpoint_dir);
  REQUIRE(entries.ok());
  REQUIRE(entries->size() > 1);
  return WeightsOf(entries->front().directory);
}

void FineTunes(Body body, bool kills) {
  Scenario first(body, "pretraining", MnistOptions());
  first.Check(first->StartAll());
  first.Finish();
  Weights trained = TrainedWeightsOf(first->checkpoint_dir()).weights;

  Scenario second(body, "fine-tuning", FineTuningOf(first->checkpoint_dir()));
  if (kills) {
    for (int i = 0; i < 2; ++i) {
      second.Check(
          second->Start(TaskRole::kPs, i,
                        i == 0 ? TaskFlags{} : TaskFlags{"--crash_point", "ps.snapshot.taken:1"}));
      second.Check(second->Start(TaskRole::kWorker, i));
    }
    second.Check(second->Start(TaskRole::kChief, 0));
    second.Said(TaskRole::kChief, 0, {"initial_weights", "4 of 4 variables"});
    CHECK(second.ExitOf(TaskRole::kPs, 1, seconds(60)) == kKilled);
    // A copy of what the job begins with is in its own directory.
    std::filesystem::remove_all(first->checkpoint_dir());
    second.Check(second->Kill(TaskRole::kChief, 0));
    second.Check(second->Start(TaskRole::kChief, 0));
    second.Said(TaskRole::kChief, 0, {"initial_weights_kept"});
    second.Check(second->Start(TaskRole::kPs, 1));
    second.Said(TaskRole::kPs, 1, {"assigning", "initial_weights.safetensors"});
  } else {
    second.Check(second->StartAll());
  }
  second.Finish();
  const Weights begin = OldestOf(second->checkpoint_dir());
  const Weights end = TrainedWeightsOf(second->checkpoint_dir()).weights;
  for (const char* part : {"kernel", "bias"}) {
    INFO(part);
    const std::string frozen = std::string("dense/") + part;
    CHECK(begin.at({frozen, ""}) == trained.at({frozen, ""}));
    CHECK(end.at({frozen, ""}) == trained.at({frozen, ""}));
    CHECK(begin.at({std::string("head/") + part, ""}) ==
          trained.at({std::string("dense_1/") + part, ""}));
    CHECK(end.at({std::string("head/") + part, ""}) !=
          trained.at({std::string("dense_1/") + part, ""}));
  }
  // Slots are not taken over.
  for (const auto& [name, bytes] : begin) {
    if (name.second.empty()) continue;
    INFO(name.first << " " << name.second);
    CHECK(std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; }));
  }
}

// What --fresh would delete is still there if the job cannot begin.
void FreshWithoutWeights(Body body) {
  Scenario s(body, "fresh-weights", RecommenderJob(2, 0));
  s.Finish();
  const auto before = ListCheckpoints(s->checkpoint_dir());
  REQUIRE(before.ok());
  REQUIRE(!before->empty());
  const auto refuses = [&](const std::string& path, const std::string& why) {
    std::ofstream(s->job_file()) << RecommenderJob(2, 0) << "initial_weights: {path: " << path
                                 << "}\n";
    s.Check(s->Start(TaskRole::kChief, 0, {"--fresh"}));
    CHECK(s.ExitOf(TaskRole::kChief, 0, seconds(60)) != 0);
    const std::string tail = s->LogTail(TaskRole::kChief, 0, 40);
    INFO(tail);
    CHECK(tail.find(why) != std::string::npos);
    CHECK(ListCheckpoints(s->checkpoint_dir())->size() == before->size());
  };
  refuses(s->checkpoint_dir(), "--fresh would delete it");
  refuses(s->checkpoint_dir() + "/misspelled.h5", "misspelled.h5");
}
COHORT_BOTH_BODIES("--fresh deletes nothing for a job whose initial weights cannot be read",
                   FreshWithoutWeights)

void FineTunesUndisturbed(Body body) { FineTunes(body, /*kills=*/false); }
COHORT_BOTH_BODIES("a job begins with the values of a checkpoint", FineTunesUndisturbed)

TEST_CASE("a server dies before the first checkpoint of a job with initial weights",
          "[processes]") {
  FineTunes(Body::kProcesses, /*kills=*/true);
}

}  // namespace
}  // namespace cohort
