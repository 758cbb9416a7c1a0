// Metrics with state when tasks die; on both bodies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/manifest.h"
#include "evaluator/checkpoint_evaluator.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;
using Values = std::map<std::string, double>;

constexpr int kEpochs = 6;
const std::vector<std::string> kNames = {"loss",      "AUC",    "RootMeanSquaredError",
                                         "Precision", "Recall", "mae"};

std::string Job(const std::string& learning_rate = "0.01") {
  std::string job = WithValidation(RecommenderJob(kEpochs, 0, 1600));
  const auto replace = [&job](const std::string& from, const std::string& to) {
    job.replace(job.find(from), from.size(), to);
  };
  replace("metrics: [binary_accuracy]",
          "metrics: [AUC, RootMeanSquaredError, Precision, Recall, mae]");
  replace("learning_rate: 0.01", "learning_rate: " + learning_rate);
  replace("every_steps: 0", "max_to_keep: 100, keep_best: val_AUC, every_steps: 20");
  return job;
}

// The records of one kind and epoch in metrics.jsonl; the last one counts.
Values Recorded(const std::string& log_dir, const std::string& set, uint64_t epoch) {
  Values values;
  std::ifstream in(log_dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["set"] != set || json["kind"] != "epoch" || json["epoch"] != epoch) continue;
    for (const std::string& name : kNames) {
      INFO(line);
      REQUIRE(json.contains(name));
      values[name] = json[name].get<double>();
    }
  }
  return values;
}

Values Evaluated(const std::string& path) {
  CheckpointEvaluator evaluator({});
  const auto evaluation = evaluator.Evaluate(path);
  INFO(path << ": " << evaluation.status().ToString());
  REQUIRE(evaluation.ok());
  const auto& metrics = evaluation->record.metrics;
  return {metrics.begin(), metrics.end()};
}

void CheckEqual(const Values& a, const Values& b) {
  REQUIRE(a.size() == kNames.size());
  REQUIRE(b.size() == kNames.size());
  for (const std::string& name : kNames) {
    INFO(name);
    CHECK(a.at(name) == Approx(b.at(name)).margin(1e-6));
  }
}

// Workers and the chief die in the middle of epochs and of validations. The validation of the last
// epoch sees the weights of the last checkpoint, and each record once.
void SurvivesKills(Body body) {
  Scenario s(body, "metrics", MiniClusterOptions{.workers = 2, .job_yaml = Job(), .proxied = true});
  s.Pace(0);
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"best_checkpoint"});
  s.Bounce(TaskRole::kWorker, 0);
  s.Check(s->WaitForSteps(80, seconds(60)));
  s.Bounce(TaskRole::kChief, 0);
  s.Said(TaskRole::kChief, 0, {"job_resumed"});
  s.Bounce(TaskRole::kWorker, 1);
  s.Said(TaskRole::kChief, 0, {"task_adopted", "worker:1", "a new process"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 1);

  v1::Manifest newest;
  const auto entry = NewestReadable(s->checkpoint_dir(), &newest);
  REQUIRE(entry.ok());
  REQUIRE(entry->has_value());
  REQUIRE(newest.finished());
  const Values recorded = Recorded(s->log_dir(), "validation", kEpochs);
  CheckEqual(Evaluated((*entry)->directory), recorded);
  CHECK(recorded.at("AUC") > 0.5);
  // The training reports the same metrics.
  const Values trained = Recorded(s->log_dir(), "train", kEpochs);
  CHECK(trained.at("AUC") > 0.5);
  CHECK(trained.at("AUC") <= 1);

  // The best checkpoint is the one with the highest AUC.
  double best = 0;
  for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    best = std::max(best, Recorded(s->log_dir(), "validation", epoch).at("AUC"));
  }
  REQUIRE(newest.has_best());
  CHECK(newest.best().metric() == "val_AUC");
  CHECK(newest.best().mode() == "max");
  CHECK(newest.best().value() == Approx(best).margin(1e-6));
  const Values at_best = Evaluated(s->checkpoint_dir() + "/" + newest.best().checkpoint());
  CHECK(at_best.at("AUC") == Approx(best).margin(1e-6));
}

// True if the averages of all trained variables are also their values.
bool HasAveragesAsValues(const std::string& checkpoint) {
  const Weights weights = WeightsOf(checkpoint);
  int averages = 0;
  bool equal = true;
  for (const auto& [name, bytes] : weights) {
    if (name.second != "average") continue;
    ++averages;
    equal &= bytes == weights.at({name.first, ""});
  }
  CHECK(averages > 0);
  return equal;
}

// With SwapEMAWeights, workers validate with the averages, which an evaluation beside the job finds
// in each checkpoint. Those of the last checkpoint are its weights.
void ValidatesAverages(Body body) {
  std::string job = Job("0.01, use_ema: true, ema_momentum: 0.95");
  const std::string fit = fmt::format("epochs: {}", kEpochs);
  job.replace(job.find(fit), fit.size(), fit + ", callbacks: [SwapEMAWeights]");
  Scenario s(body, "metrics-averages", MiniClusterOptions{.workers = 2, .job_yaml = job});
  s.Check(s->StartAll());
  s.Finish();
  v1::Manifest newest;
  const auto entry = NewestReadable(s->checkpoint_dir(), &newest);
  REQUIRE(entry.ok());
  REQUIRE(entry->has_value());
  REQUIRE(newest.finished());
  CHECK(HasAveragesAsValues((*entry)->directory));
  CheckEqual(Evaluated((*entry)->directory), Recorded(s->log_dir(), "validation", kEpochs));
  const auto entries = ListCheckpoints(s->checkpoint_dir());
  REQUIRE(entries.ok());
  int compared = 0;
  for (const CheckpointEntry& checkpoint : *entries) {
    const auto manifest = ReadManifest(checkpoint.manifest);
    REQUIRE(manifest.ok());
    // Between two epochs a validation has the state of the checkpoint.
    if (manifest->finished() || manifest->epoch() == 0 || manifest->chief().metrics_size() > 0 ||
        manifest->chief().pending_size() > 0) {
      continue;
    }
    INFO(checkpoint.directory);
    CHECK(!HasAveragesAsValues(checkpoint.directory));
    CheckEqual(Evaluated(checkpoint.directory),
               Recorded(s->log_dir(), "validation", manifest->epoch()));
    ++compared;
  }
  CHECK(compared > 0);
}

using Epochs = std::map<std::string, Values>;  // "train 1", "validation 1", ...

Epochs AllRecorded(Scenario* s) {
  Epochs epochs;
  for (const char* set : {"train", "validation"}) {
    for (uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
      epochs[fmt::format("{} {}", set, epoch)] = Recorded((*s)->log_dir(), set, epoch);
    }
  }
  return epochs;
}

// With a learning rate of 0, the metrics of an epoch depend only on the records that are counted.
// So each is counted once if they equal those of a run without kills.
void CountsEachRecordOnce(Body body) {
  const MiniClusterOptions options{.workers = 2, .job_yaml = Job("0"), .proxied = true};
  Epochs expected;
  {
    Scenario s(body, "metrics-calm", options);
    s.Check(s->StartAll());
    s.Finish();
    expected = AllRecorded(&s);
  }
  Scenario s(body, "metrics-storm", options);
  s.Pace(0);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(30, seconds(60)));
  s.Bounce(TaskRole::kWorker, 0);
  s.Check(s->WaitForSteps(70, seconds(60)));
  s.Bounce(TaskRole::kChief, 0);
  s.Said(TaskRole::kChief, 0, {"job_resumed"});
  s.Check(s->WaitForSteps(130, seconds(60)));
  s.Bounce(TaskRole::kPs, 1);
  s.Said(TaskRole::kPs, 1, {"serving", "timeline=2"});
  s.Bounce(TaskRole::kWorker, 1);
  s.Said(TaskRole::kChief, 0, {"task_adopted", "worker:1", "a new process"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 2);
  const Epochs recorded = AllRecorded(&s);
  for (const auto& [epoch, values] : expected) {
    INFO(epoch);
    CheckEqual(values, recorded.at(epoch));
  }
}

COHORT_BOTH_BODIES("metrics of a run with kills are those of a run without", CountsEachRecordOnce)

COHORT_BOTH_BODIES("workers and evaluations of checkpoints use averages", ValidatesAverages)

COHORT_BOTH_BODIES("metrics of a run with kills are those of its checkpoints", SurvivesKills)

}  // namespace
}  // namespace cohort
