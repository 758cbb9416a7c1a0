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
  int nth;                     // about seven steps into the incarnation, after a checkpoint
  bool ring_only = false;      // direct pushes do not pass it
  bool after_another = false;  // it is passed when another replica has died
};

constexpr Walk kWalks[] = {
    {"ps.pull.answering", 25},
    {"ps.push.partial", 27},
    {"ps.push.received", 53},
    {"ps.push.staged", 54},
    {"ps.restore.done", 1},
    {"ps.snapshot.taken", 1},
    {"ps.snapshot.writing", 3},
    {"ps.snapshot.written", 1},
    {"ps.step.closed", 7},
    {"ps.step.closing", 7},
    {"ps.step.partial", 7},
    {"replica.own_push.made", 7},
    {"replica.ring.chunk_added", 15, true},
    {"replica.ring.chunk_summed", 16, true},
    {"replica.ring.entered", 1, true},
    {"replica.ring.entering", 1, true},
    {"replica.ring.failed", 1, true, true},
    {"replica.ring.partial", 7, true},
    {"replica.ring.summed", 7, true},
    {"worker.closure.received", 3},
    {"worker.pull.done", 7},
    {"worker.push.sent", 15},
    {"worker.result.made", 7},
};
// A replica has synchronous steps only.
constexpr std::string_view kAsyncPoint = "ps.push.applied";

// Sparse and dense gradients, slots, dropout, two tablets of each replica and, in a ring, two
// buckets. `steps` synchronous ones of 4 closures, and a checkpoint every `checkpoint_steps` of
// them; 0: only at the beginning and the end.
std::string Job(Sums sums, int steps, int checkpoint_steps) {
  std::string job = RecommenderJob(/*epochs=*/1, 4 * checkpoint_steps, 4 * 8 * steps);
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(job.find(from) != std::string::npos);
    job.replace(job.find(from), from.size(), to);
  };
  replace("model:\n", "model:\n  dtype: float64\n");
  replace("batch_size: 32", "batch_size: 8");
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

MiniClusterOptions Options(int replicas, const std::string& job) {
  MiniClusterOptions options{.workers = replicas, .job_yaml = job, .replicas = true};
  options.flags[TaskRole::kChief] = {"--threads", "1"};
  // An owner makes at most one tablet per thread.
  options.flags[TaskRole::kWorker] = {"--threads", "2"};
  return options;
}

// The weights without faults, of one worker and one server.
TrainedWeights Undisturbed(int steps) {
  std::string job = Job(Sums::kDirect, steps, 0);
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

TaskFlags Armed(std::string_view point, int nth) {
  return {"--crash_point", fmt::format("{}:{}", point, nth)};
}

// Starts the victim with this point, lets it die there, and returns.
void TakeWalk(const Walk& walk, int victim, Scenario* s) {
  INFO("crash point " << walk.point);
  MiniCluster* const cluster = s->operator->();
  const int other = (victim + 1) % kReplicas;
  if (walk.after_another) {
    // It dies while all ranks wait for its first bucket.
    s->Check(cluster->Kill(TaskRole::kWorker, other));
    s->Check(cluster->Start(TaskRole::kWorker, other, Armed("replica.ring.entered", 1)));
  }
  s->Check(cluster->Start(TaskRole::kWorker, victim, Armed(walk.point, walk.nth)));
  s->Said(TaskRole::kWorker, victim,
          {fmt::format("crash_point name={} nth={}", walk.point, walk.nth)});
  REQUIRE(s->ExitOf(TaskRole::kWorker, victim, seconds(20)) == kKilled);
  if (!walk.after_another) return;
  REQUIRE(s->ExitOf(TaskRole::kWorker, other, seconds(20)) == kKilled);
  s->Check(cluster->Start(TaskRole::kWorker, other));
}

// One job in which a replica dies at one point after the other.
void WalkAll(Sums sums, int victim) {
  constexpr int kSteps = 160;
  Scenario s(Scenario::Body::kProcesses, "replica-points",
             Options(kReplicas, Job(sums, kSteps, /*checkpoint_steps=*/5)));
  for (int i = 0; i < kReplicas; ++i) {
    if (i != victim) s.Check(s->Start(TaskRole::kWorker, i));
  }
  s.Check(s->Start(TaskRole::kChief, 0));
  int deaths = 0;
  for (const Walk& walk : kWalks) {
    if (sums != Sums::kRing && walk.ring_only) continue;
    // The fifth rollback to one checkpoint would end the job. A new chief starts its own count.
    if (++deaths % 3 == 0) s.Bounce(TaskRole::kChief, 0);
    TakeWalk(walk, victim, &s);
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
  WalkAll(Sums::kDirect, /*victim=*/1);
}

TEST_CASE("a replica of a ring dies at every crash point", "[ring]") {
  WalkAll(Sums::kRing, /*victim=*/2);
}

TEST_CASE("each replica dies at every crash point", "[every]") {
  for (int victim = 0; victim < kReplicas; ++victim) {
    INFO("worker:" << victim);
    WalkAll(Sums::kDirect, victim);
    WalkAll(Sums::kRing, victim);
  }
}

// Faults of the links between replicas, which the chief still reaches.

constexpr int kLinkSteps = 50;

// Waits until `more` messages have come to a replica from the others.
void AwaitMessages(FaultProxy* proxy, uint64_t more) {
  const uint64_t before = proxy->counters(Traffic::kData, Way::kToServer).messages;
  REQUIRE(proxy->WaitUntil(
      Traffic::kData, Way::kToServer,
      [&](const FaultProxy::Counters& now) { return now.messages >= before + more; }, seconds(60)));
}

// Waits until at least this number of the connections to a replica were reset.
void AwaitCut(FaultProxy* proxy, uint64_t least) {
  REQUIRE(proxy->WaitUntil(
      Traffic::kData, Way::kToServer,
      [&](const FaultProxy::Counters& now) { return now.cut >= least; }, seconds(60)));
}

// `fault` is called once the replicas exchange gradients. It ends with healthy links.
void CheckLinks(Sums sums, int replicas, const TrainedWeights& calm,
                const std::function<void(Scenario*)>& fault) {
  MiniClusterOptions options = Options(replicas, Job(sums, kLinkSteps, 0));
  options.proxied = true;
  Scenario s(Scenario::Body::kProcesses,
             fmt::format("replica-links-{}-{}", sums == Sums::kRing, replicas), std::move(options));
  s.Check(s->StartAll());
  for (int i = 0; i < replicas; ++i) AwaitMessages(s->proxy(TaskRole::kWorker, i), 40);
  fault(&s);
  CHECK(s.Finish().timelines == 1);  // no replica was lost
  CheckWeights(sums, calm, &s);
}

// The link between two replicas is down in both directions, and comes back.
void CutPair(Scenario* s) {
  for (int i = 0; i < 2; ++i) (*s)->proxy(TaskRole::kWorker, i)->Partition(Traffic::kData);
  for (int i = 0; i < 2; ++i) AwaitCut((*s)->proxy(TaskRole::kWorker, i), 3);
  for (int i = 0; i < 2; ++i) (*s)->proxy(TaskRole::kWorker, i)->Heal();
}

// Connections to one replica of three are reset in the middle of a step, one after another.
void ResetInSteps(Scenario* s) {
  FaultProxy* const proxy = (*s)->proxy(TaskRole::kWorker, 1);
  for (uint64_t i = 1; i <= 3; ++i) {
    const uint64_t before = proxy->counters(Traffic::kData, Way::kToServer).cut;
    proxy->Inject({.kind = Fault::Kind::kCut,
                   .way = i % 2 == 0 ? Way::kToServer : Way::kToClient,
                   .traffic = Traffic::kData,
                   .after_messages = 2 * i + 1});
    AwaitCut(proxy, before + 1);
    AwaitMessages(proxy, 10);
  }
}

// What the others send to a replica vanishes, so only keep-alive pings can notice it.
void LoseSilently(Scenario* s) {
  FaultProxy* const proxy = (*s)->proxy(TaskRole::kWorker, 1);
  const uint64_t before = proxy->counters(Traffic::kData, Way::kToServer).connections;
  proxy->Inject({.kind = Fault::Kind::kDrop, .traffic = Traffic::kData});
  REQUIRE(proxy->WaitUntil(
      Traffic::kData, Way::kToServer,
      [&](const FaultProxy::Counters& now) { return now.dropped > 0 && now.connections > before; },
      seconds(120)));
  proxy->Heal();
}

TEST_CASE("links between replicas that are cut", "[links]") {
  const TrainedWeights calm = Undisturbed(kLinkSteps);
  for (const Sums sums : {Sums::kDirect, Sums::kRing}) {
    INFO((sums == Sums::kRing ? "ring" : "direct"));
    CheckLinks(sums, 2, calm, CutPair);
    CheckLinks(sums, 3, calm, ResetInSteps);
  }
}

TEST_CASE("links between replicas that lose everything", "[every]") {
  const TrainedWeights calm = Undisturbed(kLinkSteps);
  for (const Sums sums : {Sums::kDirect, Sums::kRing}) {
    INFO((sums == Sums::kRing ? "ring" : "direct"));
    CheckLinks(sums, 3, calm, LoseSilently);
  }
}

// Its streams stay open, and the chief hears it, but it does nothing for the ring. It could also
// compute, so the others name it and wait.
TEST_CASE("a rank that hangs is named after the deadline, and waited for", "[every]") {
  for (const char* point : {"replica.ring.entering", "replica.ring.chunk_added"}) {
    INFO(point);
    Scenario s(Scenario::Body::kProcesses, "replica-hangs",
               Options(kReplicas, Job(Sums::kRing, kLinkSteps, 0)));
    s.Check(s->Start(TaskRole::kWorker, 0));
    s.Check(s->Start(TaskRole::kWorker, 1, {"--crash_point", fmt::format("{}:1:hold", point)}));
    s.Check(s->Start(TaskRole::kWorker, 2));
    s.Check(s->Start(TaskRole::kChief, 0));
    s.Said(TaskRole::kWorker, 0, {"collective_waits", "worker:1"}, seconds(90));
    s.Bounce(TaskRole::kWorker, 1);
    s.Finish();
    CheckWeights(Sums::kRing, Undisturbed(kLinkSteps), &s);
  }
}

}  // namespace
}  // namespace cohort
