// A cluster whose network loses, holds, delays and cuts, on both bodies. Every link has a proxy
// that does this on command, and the logs must show that the fault has happened.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 30;  // 10 steps each
constexpr uint64_t kApplied = 2u * 10 * kEpochs;

MiniClusterOptions Proxied(int workers = 2) {
  return {.workers = workers, .job_yaml = RecommenderJob(kEpochs, 0), .proxied = true};
}

// Updates that a tablet applied, and refused when they came again from the same attempt.
int SentTwice(const std::vector<ApplyEvent>& events) {
  return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const ApplyEvent& e) {
    if (e.verdict != "duplicate") return false;
    return std::any_of(events.begin(), events.end(), [&](const ApplyEvent& first) {
      return first.verdict == "applied" && first.closure == e.closure &&
             first.ordinal == e.ordinal && first.tablet == e.tablet && first.attempt == e.attempt;
    });
  }));
}

void LosesARequest(Body body) {
  Scenario s(body, "request", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kPs, 1);
  link->Inject({.kind = Fault::Kind::kCut,
                .way = Way::kToServer,
                .traffic = Traffic::kData,
                .after_messages = 20});
  s.Check(s->StartAll());
  const ApplyReport report = s.Finish();
  const auto seen = link->counters(Traffic::kData, Way::kToServer);
  REQUIRE(seen.cut == 1);
  REQUIRE(seen.connections == 3);  // those of two workers, and the one that was opened again
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.duplicates_refused == 0);  // the request never arrived
  REQUIRE(report.recomputed_closures == 0);
  REQUIRE(report.timelines == 1);
}

void LosesAResponse(Body body) {
  Scenario s(body, "response", Proxied(/*workers=*/1));
  FaultProxy* link = s->proxy(TaskRole::kPs, 0);
  link->Inject({.kind = Fault::Kind::kHold,
                .way = Way::kToClient,
                .traffic = Traffic::kData,
                .after_messages = 20});
  s.Check(s->StartAll());
  // The server has applied the push, because its answer is held.
  REQUIRE(link->WaitHeld(Traffic::kData, Way::kToClient, seconds(60)));
  link->Cut(Traffic::kData);
  link->Heal();
  const ApplyReport report = s.Finish();
  const auto events = ReadApplyLogs(s->apply_logs());
  s.Check(events.status());
  REQUIRE(SentTwice(*events) == 1);
  REQUIRE(report.duplicates_refused == 1);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.recomputed_closures == 0);
  REQUIRE(report.timelines == 1);
}

// Holds the fifth push at the second server, in the middle of an epoch; a request that only pulls
// came before it. When this returns, the first server has received the push.
void HoldFifthPush(Scenario* s) {
  FaultProxy* link = (*s)->proxy(TaskRole::kPs, 1);
  link->Inject({.kind = Fault::Kind::kHold,
                .way = Way::kToServer,
                .traffic = Traffic::kData,
                .after_messages = 5});
  s->Check((*s)->StartAll());
  REQUIRE(link->WaitHeld(Traffic::kData, Way::kToServer, seconds(60)));
  LineFollower applied((*s)->apply_log(0));
  int lines = 0;
  const auto fifth = [&](std::string_view line) { return line[0] != '#' && ++lines == 5; };
  REQUIRE(applied.WaitFor(fifth, seconds(60)).has_value());
}

void LosesAWorkerBetweenTwoServers(Body body) {
  Scenario s(body, "between", Proxied(/*workers=*/1));
  HoldFifthPush(&s);
  s.Check(s->Kill(TaskRole::kWorker, 0));
  s->proxy(TaskRole::kPs, 1)->Cut(Traffic::kData);
  s->proxy(TaskRole::kPs, 1)->Heal();
  s.Check(s->Start(TaskRole::kWorker, 0));
  const ApplyReport report = s.Finish();
  REQUIRE(report.partial_pushes == 1);
  REQUIRE(report.duplicates_refused >= 1);  // also pushes whose results were not reported yet
  REQUIRE(report.recomputed_closures >= 1);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

void EnduresASlowLink(Body body) {
  MiniClusterOptions options = Proxied();
  options.job_yaml = RecommenderJob(3, 0);
  Scenario s(body, "slow", options);
  s.Pace(1);
  s.Check(s->StartAll());
  const ApplyReport report = s.Finish();
  REQUIRE(s->proxy(TaskRole::kPs, 1)->counters(Traffic::kData, Way::kToClient).delayed > 0);
  REQUIRE(report.applied == 2u * 30);
  REQUIRE(report.duplicates_refused == 0);
  REQUIRE(report.timelines == 1);
}

void HealsBetweenWorkersAndServer(Body body) {
  MiniClusterOptions options = Proxied(/*workers=*/1);
  options.flags[TaskRole::kWorker] = {"--ps_timeout_s", "0.3"};
  Scenario s(body, "worker-ps", options);
  HoldFifthPush(&s);
  FaultProxy* link = s->proxy(TaskRole::kPs, 1);
  link->Partition(Traffic::kData);
  s.Said(TaskRole::kChief, 0, {"worker_set_aside", "cannot reach ps:1"});
  link->Heal();
  const ApplyReport report = s.Finish();
  REQUIRE(link->counters(Traffic::kData, Way::kToServer).cut >= 2);  // it tried again
  REQUIRE(report.partial_pushes == 1);
  REQUIRE(report.duplicates_refused == 1);
  REQUIRE(report.recomputed_closures >= 1);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);  // the chief reached the server all the time
}

void HealsBetweenChiefAndWorker(Body body) {
  Scenario s(body, "chief-worker", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kWorker, 1);
  s.Pace(1);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(20, seconds(60)));
  link->Partition(Traffic::kAll);
  s.Said(TaskRole::kChief, 0, {"task_lost", "worker:1"});
  // The other worker continues alone.
  const std::string log = s->apply_log(0);
  LineFollower alone(log, SizeOf(log));
  int lines = 0;
  REQUIRE(alone.WaitFor([&](std::string_view) { return ++lines == 5; }, seconds(60)).has_value());
  link->Heal();
  s.Said(TaskRole::kChief, 0, {"task_adopted", "worker:1", "has returned"});
  s.Release(1);
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

void ForgetsAShortCutToAServer(Body body) {
  Scenario s(body, "blink", Proxied());
  s.Pace(1);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(20, seconds(60)));
  s->proxy(TaskRole::kPs, 0)->Cut(Traffic::kControl);
  s.Said(TaskRole::kChief, 0, {"task_lost", "ps:0"});
  s.Said(TaskRole::kChief, 0, {"task_adopted", "ps:0"});
  s.Release(1);
  const ApplyReport report = s.Finish();
  REQUIRE(s->proxy(TaskRole::kPs, 0)->counters(Traffic::kControl, Way::kToServer).cut == 1);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);  // it was back within its grace
}

// A switch that restarts: for two seconds nobody reaches the server, which keeps its state.
void HealsBetweenAllAndServer(Body body) {
  Scenario s(body, "switch", Proxied());
  s.Pace(1);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(20, seconds(60)));
  FaultProxy* link = s->proxy(TaskRole::kPs, 0);
  const auto began = std::chrono::steady_clock::now();
  link->Partition(Traffic::kAll);
  s.Said(TaskRole::kChief, 0, {"task_lost", "ps:0"});
  const auto over = [&](const FaultProxy::Counters&) {
    return std::chrono::steady_clock::now() - began >= seconds(2);
  };
  REQUIRE(link->WaitUntil(Traffic::kAll, Way::kToServer, over, seconds(60)));  // redials come in
  link->Heal();
  s.Said(TaskRole::kChief, 0, {"task_adopted", "ps:0", "has returned"});
  s.Release(1);
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

// The chief's pings wait at the proxy; they come every second.
bool IsSilentFor(FaultProxy* link, seconds silence) {
  std::optional<std::chrono::steady_clock::time_point> since;
  const auto silent = [&](const FaultProxy::Counters& c) {
    const auto now = std::chrono::steady_clock::now();
    if (c.held > 0 && !since.has_value()) since = now;
    return since.has_value() && now - *since >= silence;
  };
  return link->WaitUntil(Traffic::kControl, Way::kToServer, silent, seconds(60));
}

// Tasks that lost the chief's link before the chief was killed cannot know that it is dead. They
// hear it longer than the next chief waits for tasks that hear another chief.
void WaitsForTasksThatHaveLostTheChiefBefore(Body body) {
  MiniClusterOptions options = Proxied(/*workers=*/1);
  options.flags[TaskRole::kWorker] = options.flags[TaskRole::kPs] = {"--chief_timeout_s", "6"};
  Scenario s(body, "forerunner", options);
  s.Pace(1);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(20, seconds(60)));
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kPs}) {
    for (const Way way : {Way::kToServer, Way::kToClient}) {
      s->proxy(role, 0)->Inject(
          {.kind = Fault::Kind::kHold, .way = way, .traffic = Traffic::kControl});
    }
  }
  REQUIRE(IsSilentFor(s->proxy(TaskRole::kWorker, 0), seconds(5)));
  REQUIRE(IsSilentFor(s->proxy(TaskRole::kPs, 0), seconds(5)));
  s.Check(s->Kill(TaskRole::kChief, 0));
  for (const TaskRole role : {TaskRole::kWorker, TaskRole::kPs}) {
    s->proxy(role, 0)->Cut(Traffic::kControl);
    s.Said(role, 0, {"chief_gone", "silent=true"});
    s->proxy(role, 0)->Heal();
  }
  s.Check(s->Start(TaskRole::kChief, 0));
  s.Release(1);
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

void LosesAnAnswerToTheChief(Body body) {
  Scenario s(body, "result", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kWorker, 0);
  link->Inject({.kind = Fault::Kind::kCut, .way = Way::kToClient, .after_messages = 15});
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"task_lost", "worker:0"});
  const ApplyReport report = s.Finish();
  REQUIRE(link->counters(Traffic::kControl, Way::kToClient).cut == 1);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

COHORT_BOTH_BODIES("a request that is lost is sent again", LosesARequest)
COHORT_BOTH_BODIES("an answer that is lost makes a duplicate, which is refused", LosesAResponse)
COHORT_BOTH_BODIES("a worker dies when one of two servers has its push",
                   LosesAWorkerBetweenTwoServers)
COHORT_BOTH_BODIES("a slow link only delays", EnduresASlowLink)
COHORT_BOTH_BODIES("workers cut off from a server are set aside, and resume",
                   HealsBetweenWorkersAndServer)
COHORT_BOTH_BODIES("a worker cut off from the chief comes back as it was",
                   HealsBetweenChiefAndWorker)
COHORT_BOTH_BODIES("a server that is out of sight for a moment keeps its tablets",
                   ForgetsAShortCutToAServer)
COHORT_BOTH_BODIES("a server that nobody reaches for two seconds costs nothing",
                   HealsBetweenAllAndServer)
COHORT_BOTH_BODIES("results that are lost on their way to the chief are sent again",
                   LosesAnAnswerToTheChief)

COHORT_BOTH_BODIES("a chief waits for tasks that do not know that the one before is dead",
                   WaitsForTasksThatHaveLostTheChiefBefore)

}  // namespace
}  // namespace cohort
