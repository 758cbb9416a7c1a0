#include <catch2/catch.hpp>

#include "chief/core/recovery_test_util.h"
#include "chief/core/steps_test_util.h"
#include "common/optimizers/learning_rates.h"

namespace cohort {
namespace {

// Both servers have taken the rates that they were sent.
void Take(Gated* s) {
  for (int ps = 0; ps < 2; ++ps) {
    REQUIRE(s->sent_to_ps(ps).back().has_learning_rates());
    v1::PsToChief answer;
    answer.set_request(s->sent_to_ps(ps).back().request());
    CHECK(s->steps.OnPsMessage(ps, answer).ok());
  }
}

TEST_CASE("in mode async a rate counts from the first place that no worker has") {
  Gated s({.mode = ConsistencyMode::kAsync});
  s.QueueMany(1, 6);
  s.steps.Enter(s.queue.Dispatch(0, true, 1000));
  s.steps.SetLearningRate(0.5, /*by_user=*/true, 7);
  CHECK(s.Dispatch() == 0);
  CHECK(s.sent_to_ps(0).empty());  // the record is not durable
  REQUIRE(s.world.writing.back().learning_rates().rates_size() == 1);
  CHECK(s.world.writing.back().learning_rates().rates(0).iteration() == 2);
  s.steps.OnJournaled(s.world.writing.back().number());
  CHECK(s.Dispatch() == 0);
  Take(&s);
  CHECK(!s.steps.rates().changing());
  CHECK(s.Dispatch() == 5);
  CHECK(!RateAt(s.steps.rates().rates(), 1).has_value());
  CHECK(RateAt(s.steps.rates().rates(), 2) == 0.5);
}

TEST_CASE("in mode sync the open step is closed when the servers have its rate") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  s.QueueMany(1, 4);
  CHECK(s.Dispatch() == 2);
  s.steps.SetLearningRate(0.5, /*by_user=*/false, 5);
  s.Hear(1);
  s.Hear(2);
  CHECK(s.steps.at_boundary());
  s.steps.OnJournaled(s.world.writing.back().number());
  Take(&s);
  s.Advance();
  CHECK(s.CloseTo(0).iteration() == 0);
  CHECK(RateAt(s.steps.rates().rates(), 0) == 0.5);
}

TEST_CASE("a server that was away is sent the rates again") {
  Gated s({.mode = ConsistencyMode::kAsync});
  s.steps.SetLearningRate(0.5, /*by_user=*/true, 0);
  s.steps.OnJournaled(s.world.writing.back().number());
  const size_t sent = s.sent_to_ps(1).size();
  s.steps.OnPsReturned(1, v1::PsHello());
  CHECK(s.sent_to_ps(1).size() == sent + 1);
  CHECK_THAT(s.steps.rates().Waiting(), Catch::Contains("waiting for ps:0") &&
                                            Catch::Contains("ps:1") &&
                                            Catch::Contains("to take the learning rate"));
  Take(&s);
  CHECK(!s.steps.rates().changing());
  CHECK(s.steps.rates().Waiting().empty());
  s.steps.OnPsReturned(1, v1::PsHello());
  CHECK(s.sent_to_ps(1).size() == sent + 1);
}

TEST_CASE("a callback leaves the rate that a user has set between two epochs") {
  Gated s({.mode = ConsistencyMode::kAsync});
  const auto set = [&](double rate, bool by_user) {
    s.steps.SetLearningRate(rate, by_user, 3);
    if (!s.steps.rates().changing()) return false;
    s.steps.OnJournaled(s.world.writing.back().number());
    Take(&s);
    return true;
  };
  CHECK(set(0.5, false));
  CHECK(!set(0.5, false));
  CHECK(set(0.25, true));
  CHECK(!set(0.125, false));
  CHECK(RateAt(s.steps.rates().rates(), 3) == 0.25);
  CHECK(s.steps.rates().rates().rates_size() == 1);
}

TEST_CASE("a rollback keeps what the cut has, and what users have set since") {
  const auto add = [](v1::LearningRates* rates, uint64_t iteration, bool by_user) {
    v1::LearningRate* const rate = rates->add_rates();
    rate->set_iteration(iteration);
    rate->set_rate(1.0 / static_cast<double>(iteration));
    rate->set_by_user(by_user);
  };
  v1::LearningRates cut, now;
  add(&cut, 4, false);
  now = cut;
  add(&now, 8, true);
  add(&now, 16, false);
  const v1::LearningRates after = RatesAfterRollback(cut, now);
  REQUIRE(after.rates_size() == 2);
  CHECK(after.rates(0).iteration() == 4);
  CHECK(after.rates(1).iteration() == 8);
}

TEST_CASE("a restarted chief has the rates and the history of the journal") {
  TestWorld world(1, 1);
  world.StartServing();
  world.ScheduleAll(3);
  world.Quiesce();
  REQUIRE(world.core().SetLearningRate(0.5, /*by_user=*/false).ok());
  v1::EpochRecord record;
  record.set_epoch(1);
  REQUIRE(world.core().EndEpoch(&record).ok());
  world.Quiesce();
  CHECK(RateAt(world.ps[0].learning_rates, 3) == 0.5);
  world.ps[0].learning_rates.Clear();  // as if the chief had died before it sent them
  world.KillChief();
  world.StartServing();
  world.Quiesce();
  REQUIRE(world.core().history().size() == 1);
  CHECK(world.core().view().State().learning_rate == 0.5);
  CHECK(!world.core().view().State().last_learning_rate.has_value());
  CHECK(RateAt(world.ps[0].learning_rates, 3) == 0.5);
  CHECK(!world.core().view().steps.rates().changing());
  // The beginning knows nothing of a callback's rate.
  REQUIRE(world.core().RollBack(nullptr, "").ok());
  world.Quiesce();
  CHECK(world.core().history().empty());
  CHECK(world.ps[0].learning_rates.rates_size() == 0);
}

TEST_CASE("no training closure begins while the job is paused") {
  TestWorld world(1, 1);
  world.StartServing();
  world.core().SetPaused(true);
  world.ScheduleAll(3);
  world.Quiesce();
  CHECK(world.core().view().settlement.steps() == 0);
  world.core().SetPaused(false);
  world.Quiesce();
  CHECK(world.core().view().settlement.steps() == 3);
}

}  // namespace
}  // namespace cohort
