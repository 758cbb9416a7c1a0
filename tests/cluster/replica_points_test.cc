// Every crash point that a replica of multi_worker_mirrored passes, on real processes: the replica
// dies there in the middle of a step and is restarted, and the job ends with the weights of an
// undisturbed job. They are the same bits with direct pushes, and differ by less than 1e-9 with a
// ring. A point that no replica reaches fails this test, and so does a point that the table lacks.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <functional>
#include <set>

#include "common/base/crash_point_list.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::seconds;

constexpr int kKilled = 128 + 9;
constexpr int kReplicas = 3;
constexpr double kMost = 1e-9;

enum class Sums { kDirect, kRing };

struct Walk {
  std::string_view point;
  int nth;                      // some steps into the incarnation
  bool ring_only = false;       // direct pushes do not pass it
  bool after_another = false;   // it is passed when another replica has died
};

constexpr Walk kWalks[] = {
    {"ps.pull.answering", 20},
    {"ps.push.partial", 20},
    {"ps.push.received", 20},
    {"ps.push.staged", 20},
    {"ps.restore.done", 1},
    {"ps.snapshot.taken", 1},
    {"ps.snapshot.writing", 3},
    {"ps.snapshot.written", 1},
    {"ps.step.closed", 10},
    {"ps.step.closing", 10},
    {"ps.step.partial", 10},
    {"replica.own_push.made", 5},
    {"replica.ring.chunk_added", 7, true},
    {"replica.ring.chunk_summed", 8, true},
    {"replica.ring.entered", 1, true},
    {"replica.ring.entering", 1, true},
    {"replica.ring.failed", 1, true, true},
    {"replica.ring.partial", 5, true},
    {"replica.ring.summed", 5, true},
    {"worker.closure.received", 2},
    {"worker.pull.done", 5},
    {"worker.push.sent", 5},
    {"worker.result.made", 5},
};
// A replica has synchronous steps only.
constexpr std::string_view kAsyncPoint = "ps.push.applied";

// Sparse and dense gradients, slots, dropout, two tablets of each replica and, in a ring, two
// buckets. 4 closures in a step, and a cut every 20 steps.
std::string Job(Sums sums, int steps) {
  std::string job = RecommenderJob(/*epochs=*/1, /*checkpoint_steps=*/20, 4 * 32 * steps);
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("model:\n", "model:\n  dtype: float64\n");
  replace("input_dim: 8", "input_dim: 16384");
  replace("    - Dense: {units: 1",
          "    - Dense: {units: 400, activation: tanh}\n    - Dropout: {rate: 0.1}\n"
          "    - Dense: {units: 400, activation: tanh}\n    - Dense: {units: 1");
  replace("num_shards: 2", "num_shards: 6");
  replace("strategy:\n", sums == Sums::kRing
                             ? "strategy:\n  closures_per_step: 4\n  communication: ring\n"
                             : "strategy:\n  closures_per_step: 4\n  communication: direct\n");
  return job;
}

MiniClusterOptions Options(Sums sums, int steps) {
  MiniClusterOptions options{.workers = kReplicas, .job_yaml = Job(sums, steps), .replicas = true};
  options.flags[TaskRole::kChief] = {"--threads", "1"};
  // An owner makes at most one tablet per thread.
  options.flags[TaskRole::kWorker] = {"--threads", "2"};
  return options;
}

// The weights without faults, of one worker and one server.
TrainedWeights Undisturbed(int steps) {
  std::string job = Job(Sums::kDirect, steps);
  const std::string of_replicas = "communication: direct";
  job.replace(job.find(of_replicas), of_replicas.size(), "mode: sync");
  Scenario s(Scenario::Body::kProcesses, "replicas-calm",
             MiniClusterOptions{.servers = 1, .workers = 1, .job_yaml = job});
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir());
}

void CheckWeights(Sums sums, const TrainedWeights& calm, Scenario* s) {
  const TrainedWeights found = TrainedWeightsOf((*s)->checkpoint_dir());
  if (sums == Sums::kDirect) return CheckSameWeights(calm, found);
  CheckCloseWeights(calm, found, kMost);
  CHECK(calm.weights != found.weights);  // the sums have another order
}

// Starts the victim with this point, lets it die there, and returns.
void TakeWalk(const Walk& walk, int victim, Scenario* s) {
  INFO("crash point " << walk.point);
  MiniCluster* const cluster = s->operator->();
  s->Check(cluster->Start(TaskRole::kWorker, victim,
                          {"--crash_point", fmt::format("{}:{}", walk.point, walk.nth)}));
  const int other = (victim + 1) % kReplicas;
  if (walk.after_another) {
    s->Said(TaskRole::kWorker, victim, {"ring_entered"});
    s->Check(cluster->Kill(TaskRole::kWorker, other));
  }
  s->Said(TaskRole::kWorker, victim,
          {fmt::format("crash_point name={} nth={}", walk.point, walk.nth)});
  REQUIRE(s->ExitOf(TaskRole::kWorker, victim, seconds(20)) == kKilled);
  if (walk.after_another) s->Check(cluster->Start(TaskRole::kWorker, other));
}

// One job in which a replica dies at one point after the other.
void WalkAll(Sums sums) {
  constexpr int kSteps = 400;
  const int victim = 1;
  Scenario s(Scenario::Body::kProcesses, "replica-points", Options(sums, kSteps));
  for (int i = 0; i < kReplicas; ++i) {
    if (i != victim) s.Check(s->Start(TaskRole::kWorker, i));
  }
  s.Check(s->Start(TaskRole::kChief, 0));
  for (const Walk& walk : kWalks) {
    if (sums == Sums::kRing || !walk.ring_only) TakeWalk(walk, victim, &s);
  }
  s.Check(s->Start(TaskRole::kWorker, victim));
  s.Finish();
  CheckWeights(sums, Undisturbed(kSteps), &s);
}

TEST_CASE("every crash point of a replica has its walk", "[direct]") {
  std::set<std::string_view> walked;
  for (const Walk& walk : kWalks) walked.insert(walk.point);
  for (const std::string_view point : kCrashPoints) {
    if (point.starts_with("chief.") || point == kAsyncPoint) continue;
    INFO(point);
    REQUIRE(walked.erase(point) == 1);
  }
  REQUIRE(walked.empty());
}

TEST_CASE("a replica that pushes directly dies at every crash point", "[direct]") {
  WalkAll(Sums::kDirect);
}

TEST_CASE("a replica of a ring dies at every crash point", "[ring]") { WalkAll(Sums::kRing); }

}  // namespace
}  // namespace cohort
