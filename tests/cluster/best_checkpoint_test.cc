// Which checkpoint a job keeps as its best when tasks die or files are damaged; on both bodies.
#include "common/checkpoint/best_checkpoint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "evaluator/checkpoint_evaluator.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using Body = Scenario::Body;

// The loss falls, so the best checkpoint by `mode: max` is an early one.
std::string Job(int epochs, const std::string& keys, int records = 320) {
  std::string job = WithValidation(RecommenderJob(epochs, 0, records));
  const std::string mark = "every_steps: 0";
  return job.replace(job.find(mark), mark.size(), keys);
}

// The validation figures by number of finished epochs; the last one of each epoch counts.
std::map<uint64_t, double> Validations(const std::string& log_dir) {
  std::map<uint64_t, double> losses;
  std::ifstream in(log_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["set"] != "validation" || json["kind"] != "epoch") continue;
    losses[json["epoch"].get<uint64_t>()] = json["loss"].get<double>();
  }
  return losses;
}

// The manifest of the newest checkpoint.
v1::Manifest Newest(const std::string& directory) {
  v1::Manifest manifest;
  const auto newest = NewestReadable(directory, &manifest);
  REQUIRE(newest.ok());
  REQUIRE(newest->has_value());
  return manifest;
}

v1::Manifest ManifestOf(const std::string& directory, const std::string& checkpoint) {
  auto manifest = ReadManifest(directory + "/" + checkpoint);
  INFO(manifest.status().ToString());
  REQUIRE(manifest.ok());
  return *std::move(manifest);
}

// Checks that the checkpoint holds the weights that its validation figure belongs to.
void CheckFigure(const std::string& path, double value) {
  CheckpointEvaluator evaluator({});
  const auto evaluation = evaluator.Evaluate(path);
  INFO(evaluation.status().ToString());
  REQUIRE(evaluation.ok());
  const auto& metrics = evaluation->record.metrics;
  const auto loss = std::find_if(metrics.begin(), metrics.end(),
                                 [](const auto& metric) { return metric.first == "loss"; });
  REQUIRE(loss != metrics.end());
  CHECK(loss->second == Approx(value).epsilon(1e-5));
}

// Checks that the best checkpoint of a finished job is the one with the best validation figure.
void CheckBest(const std::string& directory, const std::map<uint64_t, double>& losses,
               bool highest) {
  const v1::Manifest newest = Newest(directory);
  REQUIRE(newest.finished());
  REQUIRE(newest.has_best());
  const auto expected =
      std::min_element(losses.begin(), losses.end(), [&](const auto& a, const auto& b) {
        return highest ? a.second > b.second : a.second < b.second;
      });
  CHECK(newest.best().epoch() == expected->first);
  CHECK(newest.best().value() == Approx(expected->second).epsilon(1e-6));
  const v1::Manifest best = ManifestOf(directory, newest.best().checkpoint());
  CHECK(best.validated().metric() == "val_loss");
  CHECK(best.validated().value() == newest.best().value());
  CHECK(best.best().checkpoint() == newest.best().checkpoint());
  CHECK(best.chief().pending().empty());
  CheckFigure(directory + "/" + newest.best().checkpoint(), newest.best().value());
}

void KeepsTheBest(Body body) {
  Scenario s(body, "best", Job(6, "max_to_keep: 1, keep_best: val_loss, mode: max"));
  s.Finish();
  const auto losses = Validations(s->log_dir());
  REQUIRE(losses.size() == 6);
  CheckBest(s->checkpoint_dir(), losses, /*highest=*/true);
  // Only the newest and the best checkpoint are left.
  const v1::Manifest newest = Newest(s->checkpoint_dir());
  const bool same = newest.best().checkpoint() == IdOf(newest).ToString();
  CHECK(ListCheckpoints(s->checkpoint_dir())->size() == (same ? 1u : 2u));
  CHECK(s->LogTail(TaskRole::kChief, 0, 100).find("best_checkpoint") != std::string::npos);
}

// A paced job that has found a best checkpoint.
class PacedScenario : public Scenario {
 public:
  PacedScenario(Body body, const std::string& name, const std::string& keys)
      : Scenario(
            body, name,
            MiniClusterOptions{.workers = 2, .job_yaml = Job(8, keys, 1600), .proxied = true}) {
    Pace(0);
    Check((*this)->StartAll());
    Said(TaskRole::kChief, 0, {"best_checkpoint"});
  }
};

void KnowsItAfterTheChief(Body body) {
  PacedScenario s(body, "best-chief", "max_to_keep: 1, keep_best: val_loss, mode: max");
  s.Bounce(TaskRole::kChief, 0);
  s.Said(TaskRole::kChief, 0, {"job_resumed"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 1);
  CheckBest(s->checkpoint_dir(), Validations(s->log_dir()), /*highest=*/true);
}

// A user may choose another validation set; figures of the old set are then not compared.
void ForgetsAnotherValidationSet(Body body) {
  PacedScenario s(body, "best-set", "max_to_keep: 100, keep_best: val_loss, mode: max");
  s.Check(s->Kill(TaskRole::kChief, 0));
  fs::remove(s->log_dir() + "/metrics.jsonl");
  std::string job = s->options().job_yaml;
  const std::string set = "records: 100, seed: 2";
  job.replace(job.find(set), set.size(), "records: 100, seed: 3");
  std::ofstream(s->job_file()) << job;
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Said(TaskRole::kChief, 0, {"best_checkpoint_refused", "another validation set"});
  s.Release(0);
  s.Finish();
  CheckBest(s->checkpoint_dir(), Validations(s->log_dir()), /*highest=*/true);
  const v1::Manifest newest = Newest(s->checkpoint_dir());
  const v1::Manifest best = ManifestOf(s->checkpoint_dir(), newest.best().checkpoint());
  CHECK(best.job_spec().data().validation().source_class().config().at("seed").i() == 3);
}

// The best checkpoint is deleted while the job runs: later ones are not compared with it.
void NoticesThatItIsGone(Body body) {
  PacedScenario s(body, "best-gone", "max_to_keep: 100, keep_best: val_loss, mode: max");
  const std::string directory = s->checkpoint_dir();
  const std::string gone = directory + "/" + Newest(directory).best().checkpoint();
  fs::remove_all(gone);
  s.Said(TaskRole::kChief, 0, {"best_checkpoint_"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 1);
  CHECK(!fs::exists(gone));
  std::map<uint64_t, double> losses;
  const auto left = ListCheckpoints(directory);
  for (const CheckpointEntry& entry : *left) {
    const v1::Manifest manifest = ManifestOf(directory, entry.id.ToString());
    if (manifest.has_validated()) losses[manifest.epoch()] = manifest.validated().value();
  }
  CheckBest(directory, losses, /*highest=*/true);
}

// The best checkpoint and all later ones are torn when a server is lost: the job rolls back behind
// them.
void LeavesItBehind(Body body) {
  PacedScenario s(body, "best-rollback", "max_to_keep: 100, keep_best: val_loss");
  s.Said(TaskRole::kChief, 0, {"best_checkpoint"});  // a second one, so that a best one is left
  s.Check(s->Kill(TaskRole::kPs, 1));                // nothing is committed after this
  s.Said(TaskRole::kChief, 0, {"task_lost", "ps:1"});
  const std::string directory = s->checkpoint_dir();
  const std::string torn = Newest(directory).best().checkpoint();
  std::optional<CheckpointId> behind;  // the newest whole one
  const auto entries = ListCheckpoints(directory);
  for (const CheckpointEntry& entry : *entries) {
    if (entry.id < CheckpointId::Parse(torn)) {
      behind = entry.id;
      continue;
    }
    for (const auto& file : fs::directory_iterator(entry.directory)) {
      if (file.path().extension() == ".safetensors") fs::resize_file(file.path(), 10);
    }
  }
  REQUIRE(behind.has_value());
  REQUIRE(ManifestOf(directory, behind->ToString()).has_best());
  s.Check(s->Start(TaskRole::kPs, 1));
  s.Said(TaskRole::kPs, 1, {"serving", "timeline=2"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 2);
  std::map<uint64_t, double> losses;
  const auto left = ListCheckpoints(directory);
  for (const CheckpointEntry& entry : *left) {
    const v1::Manifest manifest = ManifestOf(directory, entry.id.ToString());
    const bool counts = entry.id <= *behind || entry.id.timeline == 2;
    if (counts && manifest.has_validated()) losses[manifest.epoch()] = manifest.validated().value();
    if (counts) CHECK(manifest.best().checkpoint() != torn);
  }
  CheckBest(directory, losses, /*highest=*/false);
}

// The checkpoint of the first epoch is the second one. The chief dies before its manifest exists,
// and before the journal has its record.
TEST_CASE("a chief that dies as it commits the best checkpoint has it all the same",
          "[processes]") {
  for (const std::string point : {"chief.cut.manifest_writing", "chief.cut.manifest_written"}) {
    INFO(point);
    Scenario s(
        Body::kProcesses, "best-crash",
        MiniClusterOptions{.job_yaml = Job(4, "max_to_keep: 1, keep_best: val_loss, mode: max")});
    for (int i = 0; i < 2; ++i) s.Check(s->Start(TaskRole::kPs, i));
    for (int i = 0; i < 3; ++i) s.Check(s->Start(TaskRole::kWorker, i));
    s.Check(s->Start(TaskRole::kChief, 0, {"--crash_point", point + ":2"}));
    REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(60)) == 128 + 9);
    s.Check(s->Start(TaskRole::kChief, 0));
    REQUIRE(s.Finish().timelines == 1);
    const auto losses = Validations(s->log_dir());
    REQUIRE(losses.size() == 4);
    CheckBest(s->checkpoint_dir(), losses, /*highest=*/true);
  }
}

COHORT_BOTH_BODIES("the best checkpoint outlives the newest", KeepsTheBest)
COHORT_BOTH_BODIES("the best checkpoint is known after the chief has died", KnowsItAfterTheChief)
COHORT_BOTH_BODIES("the best checkpoint of another validation set is not the best any more",
                   ForgetsAnotherValidationSet)
COHORT_BOTH_BODIES("a best checkpoint that somebody deletes is not the best any more",
                   NoticesThatItIsGone)
COHORT_BOTH_BODIES("a best checkpoint that a rollback leaves behind is not the best any more",
                   LeavesItBehind)

}  // namespace
}  // namespace cohort
