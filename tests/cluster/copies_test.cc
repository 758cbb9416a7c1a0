// `strategy.replicas: 2`: servers and chiefs are killed again and again; nothing is rolled back.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <optional>
#include <random>
#include <string>

#include "deploy/launcher/control_job.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Body = MiniCluster::Body;

std::string Replace(std::string text, const std::string& what, const std::string& with) {
  REQUIRE(text.find(what) != std::string::npos);
  return text.replace(text.find(what), what.size(), with);
}

std::string AsyncJob(int epochs) {
  return Replace(StormJob(epochs), "\nstrategy:", "\nstrategy:\n  replicas: 2");
}

// The census model in steps of three closures.
std::string SyncJob(bool copies, int epochs = 2) {
  std::string job =
      Replace(ExampleJob("census_csv.yaml"), "epochs: 5", fmt::format("epochs: {}", epochs));
  job = Replace(std::move(job), "- Embedding", "- DynamicEmbedding");
  job = Replace(std::move(job), "input_dim: 17, ", "min_count: 2, evict_after_steps: 3, ");
  return Replace(std::move(job), "\ncheckpoint:",
                 std::string("\nstrategy: {mode: sync, closures_per_step: 3") +
                     (copies ? ", replicas: 2" : "") + "}\n\ncheckpoint:");
}

// What chiefs report about copies from now on.
class CopiesSaid {
 public:
  explicit CopiesSaid(const std::string& log) : lines_(log, SizeOf(log)) {}

  // A copy is lost; no chief may have reported it yet.
  void Lose() { degraded_ = true; }
  // Waits until each tablet has a copy, as far as chiefs have reported.
  void Await() {
    while (const auto line = lines_.Next()) Note(*line);
    const auto paired = [&](std::string_view line) {
      Note(line);
      return !degraded_;
    };
    if (degraded_) REQUIRE(lines_.WaitFor(paired, seconds(90)));
  }

 private:
  void Note(std::string_view line) {
    if (line.find("degraded what=") == std::string_view::npos) return;
    degraded_ = line.find("not_degraded") == std::string_view::npos;
  }

  LineFollower lines_;
  bool degraded_ = false;
};

// Kills a server, a chief, or both, and waits until each tablet has a copy again, and for some
// steps. `kills` counts servers. A tablet that is handed over behind the steps has no copy for a
// moment, in which its server must not be killed.
void Strike(Scenario* s, int kills, uint32_t seed) {
  std::mt19937 random(seed);
  while (kills > 0) {
    INFO("kills left: " << kills);
    CopiesSaid copies((*s)->log_dir() + "/chief-0.log");
    const uint32_t what = random() % 4;  // 0: a chief; 1: a server and the chief; else a server
    if (what > 0) {
      copies.Lose();
      s->Bounce(TaskRole::kPs, static_cast<int>(random() % 2));
      --kills;
    }
    if (what < 2) s->Bounce(TaskRole::kChief, 0);
    copies.Await();
    LineFollower lines((*s)->apply_log(0), SizeOf((*s)->apply_log(0)));
    uint32_t more = 5 + random() % 30;
    REQUIRE(lines.WaitFor([&](std::string_view) { return --more == 0; }, seconds(90)));
    copies.Await();
  }
}

MiniClusterOptions OptionsOf(std::string job) {
  return {.servers = 2,
          .workers = 3,
          .job_yaml = std::move(job),
          .data_dir = GeneratedDataDir(),
          .proxied = true};
}

void ServersAreKilled(Body body, const char* name, int epochs, int kills, uint32_t seed) {
  Scenario s(body, name, OptionsOf(AsyncJob(epochs)));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(5));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(50, seconds(60)));
  Strike(&s, kills, seed);
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

void SynchronousServersAreKilled(Body body, const char* name, int epochs, int kills,
                                 uint32_t seed) {
  Scenario calm(body, "copies-calm", OptionsOf(SyncJob(/*copies=*/false, epochs)));
  calm.Check(calm->StartAll());
  calm.Finish();
  Scenario s(body, name, OptionsOf(SyncJob(/*copies=*/true, epochs)));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(20));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  Strike(&s, kills, seed);
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
  CheckSameWeights(TrainedWeightsOf(calm->checkpoint_dir()), TrainedWeightsOf(s->checkpoint_dir()));
}

// The only copy of a tablet is lost: the job goes back to its newest checkpoint.
void BothServersAreKilled(Body body) {
  Scenario s(body, "copies-both",
             OptionsOf(Replace(AsyncJob(2), "every_steps: 500", "every_steps: 50")));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(5));
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint", "cut=1"});
  s.Check(s->Kill(TaskRole::kPs, 0));
  s.Said(TaskRole::kChief, 0, {"chief:0 degraded"});
  s.Check(s->Kill(TaskRole::kPs, 1));
  s.Check(s->Start(TaskRole::kPs, 0));
  s.Check(s->Start(TaskRole::kPs, 1));
  s.Said(TaskRole::kPs, 1, {"serving", "timeline=2"});
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 2);
}

// A host with the chief and a server is lost. Another chief starts while the server is away.
void AChiefStartsWithoutAServer(Body body) {
  Scenario s(body, "copies-chief", OptionsOf(AsyncJob(3)));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(5));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(50, seconds(60)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  s.Check(s->Kill(TaskRole::kPs, 0));
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Said(TaskRole::kChief, 0, {"job_resumed"});
  LineFollower lines(s->apply_log(1), SizeOf(s->apply_log(1)));
  uint32_t more = 20;
  REQUIRE(lines.WaitFor([&](std::string_view) { return --more == 0; }, seconds(60)));
  s.Check(s->Start(TaskRole::kPs, 0));
  s.Said(TaskRole::kChief, 0, {"not_degraded"});
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

void Control(Scenario* s, const std::string& command, const std::string& ps = "") {
  s->Check(ControlJob({.run = (*s)->checkpoint_dir(), .command = command, .mode = ps}).status());
}

// Drains one of three servers, stops and restarts it, returns it and rebalances, `rounds` times.
void Move(Scenario* s, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    const int ps = round % 3;
    Control(s, "drain-ps", std::to_string(ps));
    s->Said(TaskRole::kChief, 0, {"tablet_handed_over", "0 still move"});
    if (round % 2 == 0) s->Bounce(TaskRole::kPs, ps);
    if (round % 2 == 0) s->Said(TaskRole::kPs, ps, {"adopted"});
    Control(s, "return-ps", std::to_string(ps));
    Control(s, "rebalance");
    s->Said(TaskRole::kChief, 0, {"tablet_handed_over", "0 still move"});
    if (round % 3 == 1) {
      s->Bounce(TaskRole::kChief, 0);
      s->Said(TaskRole::kChief, 0, {"job_resumed"});
    }
  }
}

void TabletsMove(Body body, const char* name, const std::string& job, bool sync) {
  std::optional<Scenario> calm;
  MiniClusterOptions options = OptionsOf(job);
  options.servers = 3;
  if (sync) {
    calm.emplace(body, "moves-calm", OptionsOf(SyncJob(/*copies=*/false)));
    calm->Check((*calm)->StartAll());
    calm->Finish();
  }
  Scenario s(body, name, options);
  for (const int ps : {0, 1, 2}) s.Pace(ps, milliseconds(20));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  Move(&s, 5);
  for (const int ps : {0, 1, 2}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
  if (!sync) return;
  CheckSameWeights(TrainedWeightsOf((*calm)->checkpoint_dir()),
                   TrainedWeightsOf(s->checkpoint_dir()));
}

COHORT_BOTH_BODIES("tablets move between servers, and nothing is rolled back",
                   [](Body body) { TabletsMove(body, "moves-async", StormJob(1), /*sync=*/false); })
COHORT_BOTH_BODIES("tablets with copies move", [](Body body) {
  TabletsMove(body, "moves-copies", AsyncJob(1), /*sync=*/false);
})
COHORT_BOTH_BODIES("tablets move in mode sync, and the weights have the same bits", [](Body body) {
  TabletsMove(body, "moves-sync", SyncJob(/*copies=*/false), /*sync=*/true);
})
COHORT_BOTH_BODIES("servers with copies are killed again and again, and nothing is rolled back",
                   [](Body body) { ServersAreKilled(body, "copies-async", 3, 6, 1); })
COHORT_BOTH_BODIES(
    "servers with copies are killed in mode sync, and the weights have the same bits",
    [](Body body) { SynchronousServersAreKilled(body, "copies-sync", 2, 6, 2); })
COHORT_BOTH_BODIES("a chief starts while a server with copies is away", AChiefStartsWithoutAServer)
COHORT_BOTH_BODIES("both servers of a tablet are lost, and the job goes back to a checkpoint",
                   BothServersAreKilled)

TEST_CASE("with `rebalance: auto`, a server that was lost gets tablets back by itself",
          "[processes]") {
  Scenario s(Body::kProcesses, "copies-auto",
             OptionsOf(Replace(AsyncJob(30), "\nstrategy:", "\nstrategy:\n  rebalance: auto")));
  for (const int ps : {0, 1}) s.Pace(ps, milliseconds(5));
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(50, seconds(60)));
  s.Bounce(TaskRole::kPs, 0);
  s.Said(TaskRole::kChief, 0, {"tablet_moves", "to ps:0", "ps:0 0 %"});
  s.Said(TaskRole::kChief, 0, {"tablet_handed_over", "to ps:0", "0 still move"});
  s.Said(TaskRole::kChief, 0, {"not_degraded"});
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

TEST_CASE("50 kills of servers with copies, in each mode", "[storm]") {
  ServersAreKilled(Body::kProcesses, "copies-storm-async", 30, 50, 3);
  SynchronousServersAreKilled(Body::kProcesses, "copies-storm-sync", 8, 50, 4);
}

}  // namespace
}  // namespace cohort
