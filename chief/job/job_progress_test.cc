#include "chief/job/job_progress.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <sstream>

#include "chief/job/checkpoint_policy.h"
#include "chief/job/fake_cluster_test_util.h"
#include "common/base/clock_test_util.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;
using testing::Console;

const JobSchedule kProgressSchedule{.epochs = 2, .steps_per_epoch = 100};

CoordinatorState At(uint64_t steps, double loss = 0.5) {
  CoordinatorState state;
  state.steps = steps;
  state.metrics = {MeanState("loss", loss, 1)};
  return state;
}

struct Shown : ManualClock, Console {
  Shown() : Console(this) {
    REQUIRE(metrics.Open(directory.path(), this).ok());
    progress.Restart(At(0));
  }
  std::string Lines() const {
    std::stringstream text;
    text << std::ifstream(directory / "metrics.jsonl").rdbuf();
    return text.str();
  }

  testing::TestDirectory directory;
  JobProgress progress{
      &kProgressSchedule, {.record_every_steps = 10}, this, log.get(), &console, &metrics};
};

TEST_CASE("every record and every line counts epochs from 1") {
  Shown shown;
  shown.Advance(std::chrono::seconds(2));
  shown.progress.Update(At(9), 0);
  CHECK(shown.Lines().empty());
  shown.progress.Update(At(20), 0);
  CHECK_THAT(shown.Lines(), Contains(R"("kind":"step","epoch":1,"step":20)") &&
                                Contains(R"("steps_per_second":10.0)"));
  shown.progress.EndEpoch(At(100), 0, 50);
  CHECK_THAT(shown.Lines(), Contains(R"("kind":"epoch","epoch":1,"step":100)"));
  CHECK(shown.Has("epoch 1/2 [====================] 100/100, 50 steps/s, 23 s left, loss 0.5000"));
  shown.progress.Update(At(120), 1);
  CHECK_THAT(shown.Lines(), Contains(R"("kind":"step","epoch":2,"step":120)"));
}

TEST_CASE("records have the staleness of the epoch so far, and what steps waited since the last") {
  Shown shown;
  shown.Advance(std::chrono::seconds(2));
  CoordinatorState state = At(20);
  state.counters.epoch_staleness = {.sections = 4, .sum = 6, .max = 3};
  shown.progress.Update(state, 0);
  CHECK_THAT(shown.Lines(),
             Contains(R"("staleness/mean":1.5,"staleness/max":3.0)") && !Contains("sync/"));
  state = At(40);
  state.counters.steps_closed = 10;
  state.counters.dropped = 3;
  state.counters.waited_us = 5'000'000;
  shown.progress.Update(state, 0);
  CHECK_THAT(shown.Lines(), Contains(R"("sync/dropped":3.0,"sync/wait_seconds_per_step":0.5)"));
  state = At(60);
  state.counters.steps_closed = 20;
  state.counters.dropped = 4;
  state.counters.waited_us = 6'000'000;
  shown.progress.EndEpoch(state, 0, 50);
  CHECK_THAT(shown.Lines(), Contains(R"("sync/dropped":1.0,"sync/wait_seconds_per_step":0.1)"));
}

TEST_CASE("records have the learning rate if it changes") {
  Shown shown;
  CoordinatorState state = At(20);
  state.iteration = 7;
  shown.progress.EndEpoch(state, 0, 50);
  CHECK_THAT(shown.Lines(), !Contains("learning_rate"));
  JobProgress scheduled(
      &kProgressSchedule,
      {.learning_rate =
           [](uint64_t iteration) { return 1.0 / static_cast<double>(iteration + 1); }},
      &shown, shown.log.get(), &shown.console, &shown.metrics);
  scheduled.EndEpoch(state, 0, 50);
  CHECK_THAT(shown.Lines(), Contains(R"("learning_rate":0.125)"));
}

TEST_CASE("the line shows the time left, once it is known how fast the job is") {
  Shown shown;
  shown.progress.Update(At(1), 0);
  CHECK_FALSE(shown.Has(" left"));
  shown.Advance(std::chrono::seconds(5));
  shown.progress.Update(At(50), 0);  // 10 steps/s, 150 steps left
  CHECK(shown.Has("10 steps/s, 15 s left, loss 0.5000"));
  // The validation between the epochs counts: 4 steps/s since then.
  shown.Advance(std::chrono::seconds(5));
  shown.progress.EndEpoch(At(100), 0, 10);
  shown.Advance(std::chrono::seconds(20));
  shown.progress.Update(At(150), 1);
  CHECK(shown.Has("50/100, 2 steps/s, 8 s left, loss 0.5000"));
  shown.progress.EndEpoch(At(200), 1, 10);
  CHECK(shown.Has("epoch 2/2 [====================] 100/100, 10 steps/s, loss 0.5000"));
}

TEST_CASE("a loss that is not finite gets one warning") {
  Shown shown;
  CoordinatorState state = At(105, std::numeric_limits<double>::quiet_NaN());
  state.counters.not_finite = 1;
  state.counters.first_not_finite_step = 103;
  shown.progress.Update(state, 1);
  shown.progress.Update(state, 1);
  CHECK(shown.Has("the loss is infinite or NaN at step 103, epoch 2"));
  CHECK(shown.log_text.find("not_finite") == shown.log_text.rfind("not_finite"));
}

TEST_CASE("a metric that is not finite gets another warning, which does not fear for the weights") {
  Shown shown;
  CoordinatorState state = At(105);
  state.metrics.push_back(MeanState("r", std::numeric_limits<double>::quiet_NaN(), 1));
  shown.progress.Update(state, 1);
  shown.progress.Update(state, 1);
  CHECK(shown.Has("the metric r is infinite or NaN at step 105. The loss does not depend on it"));
  CHECK(shown.log_text.find("not_finite") == shown.log_text.rfind("not_finite"));
}

TEST_CASE("records that cannot be stored are counted, and each reason is logged once") {
  Shown shown;
  REQUIRE(shown.metrics.summary().directory == shown.directory.path());
  std::ofstream(shown.directory / "train") << "a file";
  shown.metrics.Add({.set = "train", .metrics = {{"loss", 1}}});
  shown.metrics.Add({.set = "train", .metrics = {{"loss", 1}}});
  CHECK(shown.metrics.summary().records == 2);
  CHECK(shown.metrics.summary().failed == 2);
  CHECK(shown.Has("warning: metrics are not stored: " + shown.metrics.summary().first_error));
  CHECK(shown.log_text.find("report_failed") == shown.log_text.rfind("report_failed"));
}

TEST_CASE("after the outcome, what the coordinator waits for is what the job is doing") {
  Shown shown;
  shown.console.SetActivity("training");
  shown.console.PrintWait("waiting for worker:0");
  CHECK(shown.console.activity() == "training");
  CHECK(shown.console.BeginEnd());
  CHECK(!shown.console.BeginEnd());
  CHECK(shown.console.activity() == "ending");
  shown.console.PrintWait("waiting for the storage");
  CHECK(shown.console.activity() == "waiting for the storage");
  CHECK(shown.Has("waiting for worker:0"));
}

TEST_CASE("a checkpoint is due by steps, by seconds and by epochs") {
  ManualClock clock;
  CheckpointPolicy policy({.every_steps = 10, .every_seconds = 5, .every_epochs = 2}, &clock);
  CHECK(!policy.DueAt(9));
  CHECK(policy.DueAt(10));
  policy.Restart(10);
  CHECK(!policy.DueAt(19));
  clock.Advance(std::chrono::seconds(5));
  CHECK(policy.DueAt(11));
  CHECK(!policy.DueAfter(1));
  CHECK(policy.DueAfter(2));
  CHECK(!CheckpointPolicy({}, &clock).DueAt(1000));
}

}  // namespace
}  // namespace cohort
