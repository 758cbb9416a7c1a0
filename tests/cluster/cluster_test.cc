// What a cluster does when its tasks die, on both bodies: `[in_process]` and `[processes]` run the
// same scenarios.

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/cluster/scenario.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = Scenario::Body;

constexpr int kEpochs = 30;  // 10 steps each

void TrainsToTheEnd(Body body) {
  Scenario s(body, "trains", RecommenderJob(kEpochs, 0));
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied >= 2u * 10 * kEpochs);
  REQUIRE(report.timelines == 1);
}

void EvaluatorSeesTheEnd(Body body) {
  Scenario s(body, "evaluates", WithValidation(RecommenderJob(kEpochs, 100)));
  s.Check(s->Start(TaskRole::kEvaluator, 0));
  s.Finish();
  REQUIRE(s.ExitOf(TaskRole::kEvaluator, 0, seconds(60)) == 0);
}

// A job that has trained some steps and does not end before Release(0).
class PacedScenario : public Scenario {
 public:
  PacedScenario(Body body, const std::string& name, int checkpoint_steps)
      : Scenario(body, name,
                 MiniClusterOptions{.job_yaml = RecommenderJob(kEpochs, checkpoint_steps),
                                    .proxied = true}) {
    Pace(0);
    Check((*this)->StartAll());
    Check((*this)->WaitForSteps(60, seconds(60)));
  }
};

void SurvivesAWorker(Body body) {
  PacedScenario s(body, "worker", 0);
  for (const int worker : {1, 0}) {
    s.Bounce(TaskRole::kWorker, worker);
    s.Said(TaskRole::kWorker, worker, {"adopted"});
  }
  s.Release(0);
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == 2u * 10 * kEpochs);
  REQUIRE(report.timelines == 1);
}

void SurvivesAServer(Body body) {
  PacedScenario s(body, "ps", 50);
  s.Bounce(TaskRole::kPs, 1);
  s.Said(TaskRole::kPs, 1, {"serving", "timeline=2"});
  s.Release(0);
  REQUIRE(s.Finish().timelines == 2);
}

// How often metrics.jsonl has a validation of this epoch.
int Validations(Scenario* s, int epoch) {
  std::ifstream in((*s)->log_dir() + "/metrics.jsonl");
  const std::string told = fmt::format(R"("set":"validation","kind":"epoch","epoch":{},)", epoch);
  int validations = 0;
  for (std::string line; std::getline(in, line);) validations += line.find(told) != line.npos;
  return validations;
}

// The validation of epoch 1 starts after its checkpoint: twenty closures that read both servers.
void ValidatesAgainAfterAServer(Body body) {
  std::string job = WithValidation(RecommenderJob(2, 0));
  const auto replace = [&](const std::string& what, const std::string& with) {
    job.replace(job.find(what), what.size(), with);
  };
  replace("records: 100", "records: 640");
  replace("every_steps: 0", "every_epochs: 1");
  Scenario s(body, "validation",
             MiniClusterOptions{.workers = 1, .job_yaml = job, .proxied = true});
  s.Pace(0, std::chrono::milliseconds(200));
  s.Check(s->StartAll());
  s.Said(TaskRole::kChief, 0, {"checkpoint", "cut=1"});
  s.Check(s->Kill(TaskRole::kPs, 1));
  REQUIRE(Validations(&s, 1) == 0);
  s.Check(s->Start(TaskRole::kPs, 1));
  s.Release(0);
  s.Finish();
  REQUIRE(Validations(&s, 1) == 1);
  REQUIRE(Validations(&s, 2) == 1);
}

void SurvivesTheChief(Body body) {
  PacedScenario s(body, "chief", 0);
  s.Bounce(TaskRole::kChief, 0);
  s.Said(TaskRole::kChief, 0, {"job_resumed"});
  s.Release(0);
  const ApplyReport report = s.Finish();
  REQUIRE(report.applied == 2u * 10 * kEpochs);
  REQUIRE(report.timelines == 1);
}

void SaysThatAJobIsFinished(Body body) {
  Scenario s(body, "finished", RecommenderJob(2, 0));
  s.Finish();
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(30)) != 0);
  REQUIRE(s->LogTail(TaskRole::kChief, 0, 5).find("another checkpoint directory") !=
          std::string::npos);
}

COHORT_BOTH_BODIES("a job trains to its end and every task exits 0", TrainsToTheEnd)
COHORT_BOTH_BODIES("the evaluator ends with the job", EvaluatorSeesTheEnd)
COHORT_BOTH_BODIES("a job survives its workers", SurvivesAWorker)
COHORT_BOTH_BODIES("a job survives a parameter server", SurvivesAServer)
COHORT_BOTH_BODIES("a validation in which a parameter server is lost is repeated",
                   ValidatesAgainAfterAServer)
COHORT_BOTH_BODIES("a job survives its chief", SurvivesTheChief)
COHORT_BOTH_BODIES("a finished job is reported as finished", SaysThatAJobIsFinished)

}  // namespace
}  // namespace cohort
