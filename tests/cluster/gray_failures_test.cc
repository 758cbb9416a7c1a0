// Servers, links and workers that are alive but slow: the chief names them, and a user fences them.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "deploy/launcher/control_job.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Body = MiniCluster::Body;
using Catch::Contains;
using nlohmann::json;

constexpr milliseconds kUsual{20};
constexpr milliseconds kSlow{200};

std::string WithStrategy(std::string job, const std::string& keys) {
  const std::string mark = "\nstrategy:";
  REQUIRE(job.find(mark) != std::string::npos);
  return job.replace(job.find(mark), mark.size(), mark + "\n  " + keys);
}

MiniClusterOptions Proxied(std::string job, int servers = 2, int workers = 3) {
  return {.servers = servers,
          .workers = workers,
          .job_yaml = std::move(job),
          .data_dir = GeneratedDataDir(),
          .proxied = true};
}

// Worker 1 reaches the servers through the proxies, and worker 0 past them.
void StartWithOneProxiedWorker(Scenario* s, const TaskFlags& flags = {}) {
  for (const int ps : {0, 1}) s->Check((*s)->Start(TaskRole::kPs, ps));
  s->Check((*s)->Start(TaskRole::kWorker, 0));
  TaskFlags proxied = {"--unix_socket_dir", "none"};
  proxied.insert(proxied.end(), flags.begin(), flags.end());
  s->Check((*s)->Start(TaskRole::kWorker, 1, proxied));
  s->Check((*s)->Start(TaskRole::kChief, 0));
}

absl::Status Control(Scenario* s, const std::string& command, const std::string& task = "") {
  return ControlJob({.run = (*s)->checkpoint_dir(), .command = command, .mode = task}).status();
}

json StatusOf(Scenario* s) {
  const auto status =
      ControlJob({.run = (*s)->checkpoint_dir(), .command = "status", .json = true});
  s->Check(status.status());
  return json::parse(*status);
}

// Waits until server 0 has applied `updates` more pushes.
void Train(Scenario* s, int updates) {
  const std::string log = (*s)->apply_log(0);
  LineFollower lines(log, SizeOf(log));
  REQUIRE(lines.WaitFor([&](std::string_view) { return --updates == 0; }, seconds(90)));
}

// The names of events in the chief's log that begin with slow_.
std::vector<std::string> SlowEvents(Scenario* s) {
  std::ifstream log((*s)->LogFile(TaskRole::kChief, 0));
  std::vector<std::string> events;
  for (std::string line; std::getline(log, line);) {
    const size_t at = line.find(" slow_");
    if (at != std::string::npos)
      events.push_back(line.substr(at + 1, line.find(' ', at + 1) - at - 1));
  }
  return events;
}

// ------------------------------------------------------------------ what is slow is named

void NamesASlowServer(Body body, const std::string& name, const std::string& strategy) {
  std::string job = StormJob(2);
  if (!strategy.empty()) job = WithStrategy(std::move(job), strategy);
  Scenario s(body, name, Proxied(job));
  s.Pace(0, kUsual);
  s.Pace(1, kSlow);
  s.Check(s->StartAll());
  const std::string begins = s.Said(TaskRole::kChief, 0, {"slow_server", "ps:1: p50 "});
  CHECK_THAT(begins, Contains("3 of 3 workers"));
  const json status = StatusOf(&s);
  CHECK(status["slow"].size() == 1);
  REQUIRE(status["links"].size() == 6);
  for (const json& link : status["links"]) {
    CHECK(link["slow"] == (link["ps"] == 1));
    CHECK(link["p50_seconds"] > (link["ps"] == 1 ? 0.15 : 0.015));
  }
  s.Pace(1, kUsual);
  s.Said(TaskRole::kChief, 0, {"slow_server_ended", "ps:1: "});
  CHECK(SlowEvents(&s) == std::vector<std::string>{"slow_server", "slow_server_ended"});
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

COHORT_BOTH_BODIES("a server that is slow but alive is named, and so is the end",
                   [](Body body) { NamesASlowServer(body, "gray-async", ""); })
COHORT_BOTH_BODIES("a server that is slow but alive is named in mode sync, too", [](Body body) {
  NamesASlowServer(body, "gray-sync", "mode: sync\n  closures_per_step: 3");
})

TEST_CASE("a link of one worker that is slow but alive is named, and its server is not",
          "[processes]") {
  MiniClusterOptions options = Proxied(StormJob(1000), 2, 2);
  options.unix_sockets = true;
  Scenario s(Body::kProcesses, "gray-link", options);
  s.Pace(0, kUsual);
  s.Pace(1, kSlow);
  StartWithOneProxiedWorker(&s);
  s.Said(TaskRole::kChief, 0, {"slow_link", "worker:1 -> ps:1: p50 "});
  s.Pace(1, kUsual);
  s.Said(TaskRole::kChief, 0, {"slow_link_ended", "worker:1 -> ps:1"});
  CHECK(SlowEvents(&s) == std::vector<std::string>{"slow_link", "slow_link_ended"});
  CHECK(s.Report(/*finished=*/false).timelines == 1);
}

// The chief and the other worker reach the server all the time, so nothing is rolled back.
TEST_CASE("a worker that alone cannot reach a server is set aside, and others do its work",
          "[processes]") {
  MiniClusterOptions options = Proxied(StormJob(1000), 2, 2);
  options.unix_sockets = true;
  Scenario s(Body::kProcesses, "gray-alone", options);
  StartWithOneProxiedWorker(&s, {"--ps_timeout_s", "0.3"});
  s.Check(s->WaitForSteps(10, seconds(60)));
  FaultProxy* const link = s->proxy(TaskRole::kPs, 1);
  link->Partition(Traffic::kData);
  CHECK_THAT(s.Said(TaskRole::kChief, 0, {"worker_set_aside", "cannot reach ps:1"}),
             Contains("worker:1 "));
  Train(&s, 200);
  s.Said(TaskRole::kChief, 0, {"worker_set_aside", "worker:1 "});  // it has tried again
  link->Heal();
  const uint64_t before = StatusOf(&s)["workers"][1]["steps"];
  while (StatusOf(&s)["workers"][1]["steps"] <= before) Train(&s, 20);
  CHECK(s.Report(/*finished=*/false).timelines == 1);
}

// ------------------------------------------------------------------ fences

void FencesAWorker(Body body) {
  Scenario s(body, "fence-worker", Proxied(StormJob(2)));
  for (const int ps : {0, 1}) s.Pace(ps, kUsual);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  s.Check(Control(&s, "fence", "worker:1"));
  s.Said(TaskRole::kChief, 0, {"worker_fenced", "worker:1"});
  // What it had begun may have arrived after the fence.
  Train(&s, 10);
  const auto steps = [&] { return StatusOf(&s)["workers"][1]["steps"].get<uint64_t>(); };
  const uint64_t fenced = steps();
  Train(&s, 30);
  CHECK(steps() == fenced);
  CHECK(StatusOf(&s)["workers"][1]["in_flight"] == 0);
  s.Bounce(TaskRole::kWorker, 1);
  s.Said(TaskRole::kChief, 0, {"task_adopted", "worker:1"});
  // As a supervisor starts it. A chief that a user starts forgets fences.
  s.Check(s->Kill(TaskRole::kChief, 0));
  s.Check(s->Start(TaskRole::kChief, 0, {"--finished_ok"}));
  s.Said(TaskRole::kChief, 0, {"worker_fenced", "worker:1"});
  s.Check(Control(&s, "fence", "worker:0"));
  CHECK_THAT(std::string(Control(&s, "fence", "worker:2").message()),
             Contains("no other worker would be left"));
  CHECK_THAT(std::string(Control(&s, "fence", "worker:3").message()),
             Contains("there is no worker:3"));
  Train(&s, 10);
  s.Check(Control(&s, "unfence", "worker:0"));
  s.Check(Control(&s, "unfence", "worker:1"));
  const uint64_t before = steps();
  while (steps() <= before) Train(&s, 5);
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

COHORT_BOTH_BODIES("a fenced worker gets no work, also from a restarted chief", FencesAWorker)

// Fences one of three servers whose answers no worker gets, ends it, returns it and rebalances.
void FenceServers(Scenario* s, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    const int ps = round % 3;
    const std::string name = "ps:" + std::to_string(ps);
    FaultProxy* const link = (*s)->proxy(TaskRole::kPs, ps);
    link->Inject({.kind = Fault::Kind::kHold, .way = Way::kToClient, .traffic = Traffic::kData});
    REQUIRE(link->WaitHeld(Traffic::kData, Way::kToClient, seconds(60)));
    s->Check(Control(s, "fence", name));
    s->Said(TaskRole::kChief, 0, {"server_fenced", name});
    s->Said(TaskRole::kChief, 0, {"not_degraded"});
    link->Heal();
    s->Pace(ps, kUsual);
    const json server = StatusOf(s)["servers"][static_cast<size_t>(ps)];
    CHECK(server["tablets"] == 0);
    CHECK(server["copies"] == 0);
    CHECK(server["drained"] == true);
    if (round % 2 == 0) s->Bounce(TaskRole::kPs, ps);
    if (round % 2 == 0) s->Said(TaskRole::kPs, ps, {"adopted"});
    s->Check(Control(s, "unfence", name));
    s->Check(Control(s, "rebalance"));
    s->Said(TaskRole::kChief, 0, {"tablet_handed_over", "0 still move"});
    s->Said(TaskRole::kChief, 0, {"not_degraded"});
  }
}

void FencesServers(Body body, const char* name, const std::string& job,
                   const std::optional<std::string>& without) {
  std::optional<Scenario> calm;
  if (without.has_value()) {
    calm.emplace(body, "fence-calm", Proxied(*without, 3));
    calm->Check((*calm)->StartAll());
    calm->Finish();
  }
  Scenario s(body, name, Proxied(job, 3));
  for (const int ps : {0, 1, 2}) s.Pace(ps, kUsual);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  FenceServers(&s, 3);
  for (const int ps : {0, 1, 2}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
  if (!calm.has_value()) return;
  CheckSameWeights(TrainedWeightsOf((*calm)->checkpoint_dir()),
                   TrainedWeightsOf(s->checkpoint_dir()));
}

COHORT_BOTH_BODIES("the copies of a fenced server take over, and nothing is rolled back",
                   [](Body body) {
                     FencesServers(body, "fence-async", WithStrategy(StormJob(2), "replicas: 2"),
                                   std::nullopt);
                   })
COHORT_BOTH_BODIES("servers are fenced in mode sync, and the weights have the same bits",
                   [](Body body) {
                     const std::string sync = "mode: sync\n  closures_per_step: 3";
                     FencesServers(body, "fence-sync",
                                   WithStrategy(StormJob(1), sync + "\n  replicas: 2"),
                                   WithStrategy(StormJob(1), sync));
                   })

void RefusesToFenceWithoutCopies(Body body) {
  Scenario s(body, "fence-refused", Proxied(StormJob(1)));
  for (const int ps : {0, 1}) s.Pace(ps, kUsual);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(10, seconds(60)));
  const absl::Status refused = Control(&s, "fence", "ps:1");
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()),
             Contains("have no copy on another server") && Contains("`drain-ps 1` moves them"));
  CHECK_THAT(std::string(Control(&s, "unfence", "ps:1").message()), Contains("was not drained"));
  for (const int ps : {0, 1}) s.Release(ps);
  CHECK(s.Finish(seconds(300)).timelines == 1);
}

COHORT_BOTH_BODIES("a server without copies is not fenced, and the error names drain-ps",
                   RefusesToFenceWithoutCopies)

}  // namespace
}  // namespace cohort
