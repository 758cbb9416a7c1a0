// Synchronous training: the weights do not depend on the number of tasks, nor on what dies; on both
// bodies.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "proto/checkpoint.pb.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

// The bytes of every variable and slot, by their names.
using Weights = std::map<std::pair<std::string, std::string>, std::vector<uint8_t>>;

struct Outcome {
  Weights weights;
  uint64_t steps = 0;       // synchronous ones, over the whole job
  uint64_t iterations = 0;  // as optimizers count them
};

Outcome OutcomeOf(const std::string& checkpoint_dir) {
  Outcome outcome;
  v1::Manifest newest;
  const auto entry = NewestReadable(checkpoint_dir, &newest);
  REQUIRE(entry.ok());
  REQUIRE(entry->has_value());
  REQUIRE(newest.finished());
  outcome.steps = newest.chief().position().open_step() - 1;
  outcome.iterations = newest.chief().position().iteration();
  const auto reader = CheckpointReader::Open((*entry)->directory, {});
  REQUIRE(reader.ok());
  for (const auto& [name, logical] : (*reader)->tensors()) {
    const auto tensor = (*reader)->Read(name.first, name.second);
    REQUIRE(tensor.ok());
    const auto* const bytes = static_cast<const uint8_t*>(tensor->raw());
    outcome.weights[name] = {bytes, bytes + tensor->num_bytes()};
  }
  return outcome;
}

void CheckSame(const Outcome& a, const Outcome& b) {
  CHECK(a.steps == b.steps);
  CHECK(a.iterations == b.iterations);
  REQUIRE(a.weights.size() == b.weights.size());
  for (const auto& [name, bytes] : a.weights) {
    INFO(name.first << " " << name.second);
    CHECK(bytes == b.weights.at(name));
  }
}

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

Outcome Undisturbed(Body body, const std::string& job, int workers, int servers) {
  Scenario s(body, "sync-calm",
             MiniClusterOptions{.servers = servers, .workers = workers, .job_yaml = job});
  s.Check(s->StartAll());
  s.Finish();
  return OutcomeOf(s->checkpoint_dir());
}

void DoesNotDependOnTasks(Body body) {
  // 10 steps of 3 closures and one of 1 an epoch; the last batch has 16 records.
  const std::string job = Job(2, 976 + 16, "mode: sync\n  closures_per_step: 3");
  const Outcome one = Undisturbed(body, job, 1, 1);
  CHECK(one.steps == 22);
  CHECK(one.iterations == 22);
  CheckSame(one, Undisturbed(body, job, 3, 2));
  CheckSame(one, Undisturbed(body, job, 2, 3));
}

COHORT_BOTH_BODIES("synchronous steps do not depend on the number of tasks", DoesNotDependOnTasks)

// Kills one task after another, each when some steps have been made since the last one.
void SurvivesKills(Body body) {
  const std::string job = Job(3, 1600, "mode: sync\n  closures_per_step: 3");
  const Outcome calm = Undisturbed(body, job, 1, 1);
  Scenario s(body, "sync-storm",
             MiniClusterOptions{.servers = 2, .workers = 3, .job_yaml = job, .proxied = true});
  s.Pace(0, std::chrono::milliseconds(10));
  s.Check(s->StartAll());
  std::mt19937 random(7);
  const std::vector<std::pair<TaskRole, int>> tasks = {
      {TaskRole::kWorker, 0}, {TaskRole::kChief, 0},  {TaskRole::kWorker, 2}, {TaskRole::kPs, 1},
      {TaskRole::kChief, 0},  {TaskRole::kWorker, 1}, {TaskRole::kPs, 0},     {TaskRole::kChief, 0}};
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
  CheckSame(calm, OutcomeOf(s->checkpoint_dir()));
}

COHORT_BOTH_BODIES("synchronous steps do not depend on what dies", SurvivesKills)

}  // namespace
}  // namespace cohort
