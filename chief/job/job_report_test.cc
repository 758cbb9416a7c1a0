#include "chief/job/job_report.h"

#include <catch2/catch.hpp>

#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

JobReport Report() {
  JobReport report;
  report.epochs = 4;
  report.steps = 800;
  report.examples = 25'600;
  report.training = {MeanState("loss", 1, 4), MeanState("accuracy", 1, 1)};
  report.checkpoint = "/c/ckpt-1-2-9";
  report.trained = {.steps = 200, .seconds = 0.5, .fsyncs = 7, .last_rate = 400};
  report.state.counters.finished = 50;
  report.state.counters.cuts = 3;
  report.state.counters.workers_lost = 2;
  report.state.counters.rollbacks = 1;
  report.steps_per_closure = 4;
  report.shard_plan = "the table";
  v1::Manifest manifest;
  manifest.add_tablets()->set_version(800);
  manifest.add_tablets()->set_version(800);
  report.ReadManifest(manifest);
  return report;
}

TEST_CASE("a report covers the whole job, and names what only this chief counted") {
  const std::string text = Report().Text();
  const size_t here = text.find("Since this chief started:");
  REQUIRE(here != std::string::npos);
  CHECK_THAT(text.substr(0, here),
             Contains("training    loss 0.2500, accuracy 1.0000") &&
                 Contains("steps       800 in all, 4 epochs, 25600 examples") &&
                 Contains("updates     1600, the sum of the versions of 2 tablets") &&
                 Contains("failures    2 workers lost, 0 parameter servers lost, 1 rollback, "
                          "0 chief restarts") &&
                 Contains("checkpoint  /c/ckpt-1-2-9") && !Contains("validation"));
  CHECK_THAT(text.substr(here),
             Contains("speed       200 steps in 0.50 s of training (400 steps/s)") &&
                 Contains("closures    50 finished, 0 executed again") &&
                 Contains("storage     3 checkpoints committed, 7 fsyncs") &&
                 Contains("the table"));
}

TEST_CASE("metrics that were lost are the last line") {
  JobReport report = Report();
  report.metrics_log = {.directory = "/l", .records = 9, .failed = 2, .first_error = "no room"};
  CHECK_THAT(report.Text(), Catch::EndsWith("logs        incomplete in /l: 2 of 9 records of "
                                            "metrics failed, first: no room\n"));
  report.metrics_log.failed = 0;
  CHECK_THAT(report.Text(), Catch::EndsWith("/l/metrics.jsonl; tensorboard --logdir /l\n"));
}

TEST_CASE("a job that was finished before says where its last checkpoint is") {
  JobReport report;
  report.checkpoint = "/c/ckpt-1-1-2";
  report.found_finished = 20;
  CHECK(report.Text() == "this job is finished: /c/ckpt-1-1-2 has its last checkpoint (step 20)\n");
}

}  // namespace
}  // namespace cohort
