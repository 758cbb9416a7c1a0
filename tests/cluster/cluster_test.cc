// What a cluster does when its tasks die, on both bodies: `[in_process]` and `[processes]` run the
// same scenarios.

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cluster/apply_log.h"
#include "tests/cluster/jobs.h"
#include "tests/cluster/mini_cluster.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using Body = MiniCluster::Body;

class Scenario {
 public:
  Scenario(Body body, const std::string& name, const std::string& job_yaml) {
    MiniClusterOptions options;
    options.directory = FreshDirectory(name);
    options.job_yaml = job_yaml;
    auto created = MiniCluster::Create(body, std::move(options));
    REQUIRE(created.ok());
    cluster_ = *std::move(created);
    Check(cluster_->StartAll());
  }
  MiniCluster* operator->() { return cluster_.get(); }

  void Check(const absl::Status& status) {
    INFO(status.ToString() << "\n" << cluster_->LogTail(TaskRole::kChief, 0, 12));
    REQUIRE(status.ok());
  }
  int ExitOf(TaskRole role, int index, seconds limit) {
    auto code = cluster_->WaitForExit(role, index, limit);
    Check(code.status());
    return *code;
  }
  // The job ends well: every task exits 0 and the logs keep the promise.
  ApplyReport Finish() {
    const int chief = ExitOf(TaskRole::kChief, 0, seconds(120));
    INFO(cluster_->LogTail(TaskRole::kChief, 0, 12));
    REQUIRE(chief == 0);
    for (int i = 0; i < cluster_->options().workers; ++i) {
      REQUIRE(ExitOf(TaskRole::kWorker, i, seconds(20)) == 0);
    }
    for (int i = 0; i < cluster_->options().servers; ++i) {
      REQUIRE(ExitOf(TaskRole::kPs, i, seconds(20)) == 0);
    }
    auto events = ReadApplyLogs(cluster_->apply_logs());
    Check(events.status());
    ApplyReport report = CheckApplyEvents(*events, /*finished=*/true);
    for (const std::string& v : report.violations) UNSCOPED_INFO(v);
    REQUIRE(report.violations.empty());
    return report;
  }
  // A task dies and comes back.
  void Bounce(TaskRole role, int index) {
    Check(cluster_->Kill(role, index));
    Check(cluster_->Start(role, index));
  }

 private:
  std::unique_ptr<MiniCluster> cluster_;
};

constexpr int kEpochs = 30;  // of 10 steps

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

void SurvivesAWorker(Body body) {
  Scenario s(body, "worker", RecommenderJob(20 * kEpochs, 0));
  s.Check(s->WaitForSteps(20, seconds(30)));
  s.Bounce(TaskRole::kWorker, 1);
  s.Bounce(TaskRole::kWorker, 0);
  REQUIRE(s.Finish().timelines == 1);
}

void SurvivesAServer(Body body) {
  Scenario s(body, "ps", RecommenderJob(20 * kEpochs, 100));
  s.Check(s->WaitForSteps(150, seconds(30)));
  s.Bounce(TaskRole::kPs, 1);
  REQUIRE(s.Finish().timelines >= 2);
}

void SurvivesTheChief(Body body) {
  Scenario s(body, "chief", RecommenderJob(20 * kEpochs, 0));
  s.Check(s->WaitForSteps(20, seconds(30)));
  s.Bounce(TaskRole::kChief, 0);
  REQUIRE(s.Finish().timelines == 1);
}

void SaysThatAJobIsFinished(Body body) {
  Scenario s(body, "finished", RecommenderJob(2, 0));
  s.Finish();
  s.Check(s->StartAll());
  REQUIRE(s.ExitOf(TaskRole::kChief, 0, seconds(30)) != 0);
  REQUIRE(s->LogTail(TaskRole::kChief, 0, 5).find("--fresh") != std::string::npos);
}

#define COHORT_BOTH_BODIES(what, scenario)                                           \
  TEST_CASE(what ", in one process", "[in_process]") { scenario(Body::kInProcess); } \
  TEST_CASE(what ", as processes", "[processes]") { scenario(Body::kProcesses); }

COHORT_BOTH_BODIES("a job trains to its end and every task exits 0", TrainsToTheEnd)
COHORT_BOTH_BODIES("the evaluator ends with the job", EvaluatorSeesTheEnd)
COHORT_BOTH_BODIES("a job survives its workers", SurvivesAWorker)
COHORT_BOTH_BODIES("a job survives a parameter server", SurvivesAServer)
COHORT_BOTH_BODIES("a job survives its chief", SurvivesTheChief)
COHORT_BOTH_BODIES("a finished job says so", SaysThatAJobIsFinished)

}  // namespace
}  // namespace cohort
