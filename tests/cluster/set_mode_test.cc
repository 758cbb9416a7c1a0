// `cohort ctl RUN set-mode` on a job that trains while tasks die; on both bodies.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "deploy/launcher/control_job.h"
#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 4;
constexpr int kStepsPerEpoch = 100;

// Waits until server 0 has got this many more updates.
void Train(Scenario* s, int updates) {
  const std::string log = (*s)->apply_log(0);
  LineFollower lines(log, SizeOf(log));
  REQUIRE(lines.WaitFor([&](std::string_view) { return --updates == 0; }, seconds(60)));
}

std::string Ask(Scenario* s, ControlOptions options) {
  options.run = (*s)->checkpoint_dir();
  const absl::StatusOr<std::string> answer = ControlJob(options);
  s->Check(answer.status());
  return *answer;
}

// The chief prints a line with these texts. Only a process has a console that the test reads.
void Printed(Scenario* s, Body body, const std::vector<std::string>& texts) {
  if (body == Body::kProcesses) s->Said(TaskRole::kChief, 0, texts);
}

// `mode`: as the console and the report name it. The answer has the same keys in another order.
void SetMode(Scenario* s, Body body, ControlOptions options, const std::string& mode) {
  options.command = "set-mode";
  CHECK_THAT(Ask(s, options), Catch::StartsWith("the mode is " + options.mode));
  Printed(s, body, {"has changed the mode: it is " + mode + ", from step "});
}

// Each tablet has applied each place.
void CheckPlaces(const std::vector<std::string>& apply_logs) {
  const auto events = ReadApplyLogs(apply_logs);
  REQUIRE(events.ok());
  std::map<uint32_t, std::set<uint64_t>> places;  // by tablet
  for (const ApplyEvent& event : *events) {
    if (event.verdict == "applied") places[event.tablet].insert(event.place);
  }
  REQUIRE(places.size() >= 2);
  for (const auto& [tablet, applied] : places) {
    INFO("tablet " << tablet);
    CHECK(applied.size() == kEpochs * kStepsPerEpoch);
  }
}

void ChangesItsMode(Body body) {
  Scenario s(body, "set-mode",
             MiniClusterOptions{.servers = 2,
                                .workers = 3,
                                .job_yaml = RecommenderJob(kEpochs, 40, 32 * kStepsPerEpoch),
                                .proxied = true});
  s.Pace(0);
  s.Check(s->StartAll());
  Train(&s, 20);
  SetMode(&s, body, {.mode = "sync", .closures_per_step = 3},
          "sync, closures_per_step 3, backup_work none");
  Train(&s, 20);
  s.Bounce(TaskRole::kWorker, 1);
  Train(&s, 20);
  SetMode(&s, body, {.mode = "async"}, "async");
  Ask(&s, {.command = "checkpoint"});  // the server's death does not undo the synchronous steps
  Train(&s, 20);
  s.Bounce(TaskRole::kPs, 1);
  Printed(&s, body, {"restored: continuing at step"});
  Train(&s, 20);
  CHECK_THAT(Ask(&s, {.command = "status"}), Catch::Contains("mode        async\n"));
  const std::string last = "bounded_staleness, closures_per_step 3, staleness 1";
  SetMode(&s, body, {.mode = "bounded_staleness", .closures_per_step = 3, .staleness = 1}, last);
  Train(&s, 20);
  s.Release(0);
  const ApplyReport report = s.Finish();
  CHECK(report.timelines == 2);
  CheckPlaces(s->apply_logs());
  Printed(&s, body, {fmt::format("{} in all, ", kEpochs * kStepsPerEpoch), "synchronous"});
  Printed(&s, body, {"mode        " + last});
}

COHORT_BOTH_BODIES("a job changes its mode while tasks die", ChangesItsMode)

void IsControlled(Body body) {
  Scenario s(body, "control",
             MiniClusterOptions{.servers = 2,
                                .workers = 2,
                                .job_yaml = RecommenderJob(2, 40, 32 * kStepsPerEpoch),
                                .proxied = true});
  s.Pace(0);
  s.Check(s->StartAll());
  Train(&s, 20);
  CHECK(Ask(&s, {.command = "set", .mode = "learning_rate", .value = "0.25"}) ==
        "the learning rate is 0.25\n");
  CHECK(Ask(&s, {.command = "pause"}) == "the job is paused\n");
  const auto status = [&] { return Ask(&s, {.command = "status"}); };
  std::string paused;
  while ((paused = status()).find(", 0 run\n") == std::string::npos) {
  }
  CHECK_THAT(paused, Catch::Contains("activity    paused\n"));
  CHECK(Ask(&s, {.command = "extend", .epochs = 3}) == "the job has 3 epochs\n");
  CHECK(Ask(&s, {.command = "resume"}) == "the job continues\n");
  Train(&s, 20);
  s.Bounce(TaskRole::kChief, 0);
  Train(&s, 20);
  // The workers finish what they hold before the new chief has the cluster.
  std::string continued;
  while ((continued = status()).find("epoch ") == std::string::npos) {
  }
  CHECK_THAT(continued, Catch::Contains(" of 3, step ") && Catch::Contains("rate        0.25\n"));
  Ask(&s, {.command = "checkpoint"});
  s.Bounce(TaskRole::kPs, 1);
  Printed(&s, body, {"restored: continuing at step"});
  CHECK_THAT(status(), Catch::Contains("rate        0.25\n"));
  s.Release(0);
  s.Finish();
  Printed(&s, body, {fmt::format("{} in all, ", 3 * kStepsPerEpoch)});
}

COHORT_BOTH_BODIES("a job is paused, gets another rate and more epochs", IsControlled)

}  // namespace
}  // namespace cohort
