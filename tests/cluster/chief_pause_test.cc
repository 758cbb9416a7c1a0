// A chief that is stopped (SIGSTOP) for longer than a task may be silent, in the middle of a
// checkpoint.
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "common/testing/directory_test_util.h"
#include "tests/cluster/scenario.h"
#include "tests/cluster/trained_weights.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kStopped{24};  // CoreOptions::silence_us is 20 s

std::string Job() {
  std::string job = RecommenderJob(/*epochs=*/12, /*checkpoint_steps=*/5);
  const std::string mark = "strategy:";
  return job.replace(job.find(mark), mark.size(),
                     "strategy:\n  mode: sync\n  closures_per_step: 2");
}

MiniClusterOptions Options() {
  return {.servers = 2, .workers = 2, .job_yaml = Job(), .proxied = true};
}

TrainedWeights Undisturbed() {
  Scenario s(Scenario::Body::kProcesses, "pause-calm", Options());
  s.Check(s->StartAll());
  s.Finish();
  return TrainedWeightsOf(s->checkpoint_dir());
}

TEST_CASE("a chief that was stopped blames nobody") {
  const TrainedWeights calm = Undisturbed();
  Scenario s(Scenario::Body::kProcesses, "pause", Options());
  for (int i = 0; i < 2; ++i) s.Pace(i);
  s.Check(s->StartAll());
  s.Check(s->WaitForSteps(4, seconds(60)));
  // What a server has written reaches the chief a moment later: it is stopped before.
  for (int i = 0; i < 2; ++i) {
    s->proxy(TaskRole::kPs, i)
        ->Inject({.kind = Fault::Kind::kDelay,
                  .way = Way::kToClient,
                  .traffic = Traffic::kControl,
                  .delay = milliseconds(300)});
  }
  s.Said(TaskRole::kPs, 0, {"snapshot_written"});
  s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGSTOP));
  std::this_thread::sleep_for(kStopped);
  s.Check(s.processes()->Signal(TaskRole::kChief, 0, SIGCONT));
  s.Said(TaskRole::kChief, 0, {"chief_was_stopped"});
  for (int i = 0; i < 2; ++i) s.Release(i);
  const ApplyReport report = s.Finish();
  CHECK(report.timelines == 1);
  CHECK(report.recomputed_closures == 0);
  const std::string log = testing::ReadAllBytes(s->LogFile(TaskRole::kChief, 0));
  for (const char* event : {"task_silent", "task_lost", "checkpoint_failed", "job_error"}) {
    CHECK_THAT(log, !Catch::Contains(event));
  }
  CheckSameWeights(calm, TrainedWeightsOf(s->checkpoint_dir()));
}

}  // namespace
}  // namespace cohort
