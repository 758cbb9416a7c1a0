// Synchronous training: the weights do not depend on the number of tasks, nor on what dies; on both
// bodies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

// The recommender with dropout and Adam: dense and sparse gradients, slots, random numbers.
std::string Job(int epochs, int records, const std::string& strategy) {
  std::string job = RecommenderJob(epochs, 0, records);
  const auto replace = [&job](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("    - Dense: {units: 1", "    - Dropout: {rate: 0.3}\n    - Dense: {units: 1");
  replace("strategy:\n", "strategy:\n  " + strategy + "\n");
  return job;
}

TrainedWeights Undisturbed(Body body, const std::string& job, int workers, int servers) {
  Scenario s(body, "sync-calm",
             MiniClusterOptions{.servers = servers, .workers = workers, .job_yaml = job});
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir());
}

void DoesNotDependOnTasks(Body body) {
  // 10 steps of 3 closures and one of 1 an epoch; the last batch has 16 records.
  const std::string job = Job(2, 976 + 16, "mode: sync\n  closures_per_step: 3");
  const TrainedWeights one = Undisturbed(body, job, 1, 1);
  CHECK(one.steps == 22);
  CHECK(one.iterations == 22);
  CheckSameWeights(one, Undisturbed(body, job, 3, 2));
  CheckSameWeights(one, Undisturbed(body, job, 2, 3));
}

COHORT_BOTH_BODIES("synchronous steps do not depend on the number of tasks", DoesNotDependOnTasks)

// The norms of a step are made of the parts of all servers.
void ClippingDoesNotDependOnTasks(Body body) {
  std::string job = Job(1, 976 + 16, "mode: sync\n  closures_per_step: 3");
  const std::string plain = "learning_rate: 0.01";
  const TrainedWeights unclipped = Undisturbed(body, job, 1, 1);
  for (const char* clipping : {"clipvalue: 0.001", "clipnorm: 0.01", "global_clipnorm: 0.01"}) {
    INFO(clipping);
    std::string clipped = job;
    clipped.replace(clipped.find(plain), plain.size(), plain + ", " + clipping);
    const TrainedWeights one = Undisturbed(body, clipped, 1, 1);
    CHECK(one.weights != unclipped.weights);
    CheckSameWeights(one, Undisturbed(body, clipped, 3, 2));
    CheckSameWeights(one, Undisturbed(body, clipped, 2, 3));
  }
}

COHORT_BOTH_BODIES("clipping does not depend on the number of tasks", ClippingDoesNotDependOnTasks)

// Kills one task after another, each when some steps have been made since the last one.
void SurvivesKillsOf(Body body, const std::string& job, const TrainedWeights& calm) {
  Scenario s(body, "sync-storm",
             MiniClusterOptions{.servers = 2, .workers = 3, .job_yaml = job, .proxied = true});
  s.Pace(0, std::chrono::milliseconds(10));
  s.Check(s->StartAll());
  std::mt19937 random(7);
  const std::vector<std::pair<TaskRole, int>> tasks = {
      {TaskRole::kWorker, 0}, {TaskRole::kChief, 0}, {TaskRole::kWorker, 2},
      {TaskRole::kPs, 1},     {TaskRole::kChief, 0}, {TaskRole::kWorker, 1},
      {TaskRole::kPs, 0},     {TaskRole::kChief, 0}};
  for (const auto& [role, index] : tasks) {
    const std::string log = s->apply_log(0);
    LineFollower lines(log, SizeOf(log));
    uint32_t more = 10 + random() % 30;
    REQUIRE(lines.WaitFor([&](std::string_view) { return --more == 0; }, seconds(60)));
    s.Bounce(role, index);
  }
  s.Release(0);
  const ApplyReport report = s.Finish();
  CHECK(report.timelines >= 3);
  CheckSameWeights(calm, TrainedWeightsOf(s->checkpoint_dir()));
}

const std::string kThreeClosures = "mode: sync\n  closures_per_step: 3";

void SurvivesKills(Body body) {
  const std::string job = Job(3, 1600, kThreeClosures);
  SurvivesKillsOf(body, job, Undisturbed(body, job, 1, 1));
}

void SurvivesKillsWithNorms(Body body) {
  std::string job = Job(3, 1600, kThreeClosures);
  const std::string plain = "learning_rate: 0.01";
  job.replace(job.find(plain), plain.size(), plain + ", global_clipnorm: 0.01");
  SurvivesKillsOf(body, job, Undisturbed(body, job, 1, 1));
}

// The first steps are skipped, because the scale is far too large. Then it doubles every four steps
// until a step is skipped again. A chief that forgot the scale would skip other steps.
void SkipsTheSameSteps(Body body) {
  const std::string job =
      "mixed_precision: {dtype: float16, initial_scale: 1073741824, dynamic_growth_steps: 4}\n" +
      Job(3, 1600, kThreeClosures);
  const TrainedWeights calm = Undisturbed(body, job, 1, 1);
  CHECK(calm.steps == 51);
  CHECK(calm.iterations < calm.steps - 13);
  CHECK(calm.iterations > 20);
  CHECK(calm.loss_scale > 1024);
  CHECK(calm.loss_scale <= 0x1p18);
  SurvivesKillsOf(body, job, calm);
}

COHORT_BOTH_BODIES("synchronous steps do not depend on what dies", SurvivesKills)
COHORT_BOTH_BODIES("steps with norms do not depend on what dies", SurvivesKillsWithNorms)
COHORT_BOTH_BODIES("steps that are skipped in float16 do not depend on what dies",
                   SkipsTheSameSteps)

}  // namespace
}  // namespace cohort
