// Links that fall silent: nothing is reset and no process dies, but no bytes arrive. Only time
// limits find that, so these tests take long.

#include <catch2/catch.hpp>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 30;  // 10 steps each
constexpr uint64_t kApplied = 2u * 10 * kEpochs;

MiniClusterOptions Proxied() {
  return {.workers = 1, .job_yaml = RecommenderJob(kEpochs, 0), .proxied = true};
}

// The server's answer vanishes, and the connection stays.
void AnswersVanish(Body body) {
  Scenario s(body, "vanish", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kPs, 1);
  link->Inject({.kind = Fault::Kind::kDrop,
                .way = Way::kToClient,
                .traffic = Traffic::kData,
                .after_messages = 5});
  s.Check(s->StartAll());
  const auto lost = [](const FaultProxy::Counters& c) { return c.dropped > 0; };
  REQUIRE(link->WaitUntil(Traffic::kData, Way::kToClient, lost, seconds(60)));
  link->Heal();  // the next connection works
  const ApplyReport report = s.Finish();
  REQUIRE(link->counters(Traffic::kData, Way::kToServer).connections == 2);
  REQUIRE(report.duplicates_refused == 1);
  REQUIRE(report.recomputed_closures == 0);
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

// Both ways between the chief and its only worker.
void WorkerFallsSilent(Body body) {
  Scenario s(body, "silent-worker", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kWorker, 0);
  for (const Way way : {Way::kToServer, Way::kToClient}) {
    link->Inject({.kind = Fault::Kind::kHold, .way = way, .after_messages = 20});
  }
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"task_lost", "worker:0"}, seconds(120));
  link->Heal();
  s.Said(TaskRole::kChief, 0, {"task_adopted", "worker:0", "has returned"}, seconds(120));
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == kApplied);
  REQUIRE(report.timelines == 1);
}

void ServerFallsSilent(Body body) {
  Scenario s(body, "silent-ps", Proxied());
  FaultProxy* link = s->proxy(TaskRole::kPs, 0);
  // The job does not end meanwhile.
  s->proxy(TaskRole::kPs, 1)
      ->Inject({.kind = Fault::Kind::kHold,
                .way = Way::kToClient,
                .traffic = Traffic::kData,
                .after_messages = 20});
  s.Check(s->StartAll());
  REQUIRE(s->proxy(TaskRole::kPs, 1)->WaitHeld(Traffic::kData, Way::kToClient, seconds(60)));
  for (const Way way : {Way::kToServer, Way::kToClient}) {
    link->Inject({.kind = Fault::Kind::kHold, .way = way, .traffic = Traffic::kControl});
  }
  s.Said(TaskRole::kChief, 0, {"job_error", "ps:0"}, seconds(120));
  link->Heal();
  s->proxy(TaskRole::kPs, 1)->Heal();
  s.Said(TaskRole::kChief, 0, {"task_adopted", "ps:0"}, seconds(120));
  REQUIRE(s.Finish().timelines >= 2);
}

COHORT_BOTH_BODIES("an answer that vanishes is asked for again", AnswersVanish)
COHORT_BOTH_BODIES("a worker that falls silent is lost, and comes back", WorkerFallsSilent)
COHORT_BOTH_BODIES("a server that falls silent is lost, and rolled back", ServerFallsSilent)

}  // namespace
}  // namespace cohort
