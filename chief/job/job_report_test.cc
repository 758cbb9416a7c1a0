#include "chief/job/job_report.h"

#include <catch2/catch.hpp>
#include <cmath>

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
                 Contains("steps       800 in all, 4 epochs, 25600 examples\n") &&
                 Contains("mode        async\n") &&
                 Contains("updates     1600, the sum of the versions of 2 tablets") &&
                 Contains("failures    2 workers lost, 0 parameter servers lost, 1 rollback, "
                          "0 chief restarts") &&
                 Contains("checkpoint  /c/ckpt-1-2-9") && !Contains("validation"));
  CHECK_THAT(
      text.substr(here),
      Contains("speed       200 steps in 0.50 s of training (400 steps/s)") &&
          Contains("closures    50 finished, 0 executed again") &&
          Contains("storage     3 checkpoints committed, 7 fsyncs of the chief during training; "
                   "checkpoints held closures back for 0.00 s\n") &&
          Contains("the table"));
}

TEST_CASE("a report says that the loss is lost, and why a job ended before its end") {
  JobReport report = Report();
  CHECK(report.Summary().outcome == "finished");
  CHECK_THAT(report.Text(), !Contains("warning") && !Contains("failed"));
  report.training = {MeanState("loss", NAN, 4), MeanState("accuracy", 1, 1)};
  CHECK_THAT(report.Text(), Contains("warning     the loss is infinite or NaN"));
  report.training = {MeanState("loss", 1, 4), MeanState("r", NAN, 1)};
  CHECK_THAT(report.Text(), !Contains("warning"));
  report.failed = "TerminateOnNaN: step 2";
  CHECK(report.Summary().outcome == "failed: TerminateOnNaN: step 2");
  CHECK_THAT(report.Text(), Contains("failed      TerminateOnNaN: step 2\n"));
}

TEST_CASE("a report says what the order of updates has cost") {
  JobReport report = Report();
  CHECK_THAT(report.Text(), !Contains("staleness") && !Contains("synchronous"));
  report.state.counters.applied = 200;
  report.state.counters.sum_staleness = 300;
  report.state.counters.max_staleness = 4;
  CHECK_THAT(report.Text(),
             Contains("staleness   mean 1.50, max 4 updates between pull and push\n"));

  report = Report();
  report.state.synchronous_steps = 267;
  report.state.mode = {.mode = ConsistencyMode::kSync, .closures_per_step = 3};
  report.state.counters.steps_closed = 66;
  report.state.counters.waited_us = 250'000;
  report.state.counters.dropped = 2;
  CHECK_THAT(report.Text(),
             Contains("steps       800 in all, 267 synchronous, 4 epochs") &&
                 Contains("mode        sync, closures_per_step 3, backup_work none\n") &&
                 Contains("(400 steps/s, 132 synchronous steps/s)\n") &&
                 Contains("waiting     0.25 s for the slowest half of the closures of 66 "
                          "synchronous steps\n") &&
                 Contains("dropped     2 gradients, 0 results lost\n") && !Contains("staleness") &&
                 !Contains("pushes ") && !Contains("skipped"));
  report.state.counters.skipped = 5;
  report.state.counters.not_finite_steps = 11;
  CHECK_THAT(report.Text(),
             Contains("skipped     5 steps: gradients were not finite in float16\n"));
  report.state.counters.steps_closed = 0;
  CHECK_THAT(report.Text(), Contains("skipped     11 steps: "));
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
