#include <catch2/catch.hpp>

#include "chief/core/steps_test_util.h"

namespace cohort {
namespace {

TEST_CASE("the end of an epoch and a client that waits make a step short") {
  Gated job({.mode = ConsistencyMode::kSync, .closures_per_step = 3});
  job.QueueMany(1, 4, /*places_end=*/3);
  CHECK(job.Dispatch() == 2);
  job.Hear(1);
  job.Hear(2);
  CHECK(job.CloseTo(0).members_size() == 2);

  Gated client({.mode = ConsistencyMode::kSync, .closures_per_step = 3});
  client.QueueMany(1, 2, /*places_end=*/0);
  CHECK(client.Dispatch() == 2);
  client.Hear(1);
  client.AddWaiting(1);
  CHECK(client.CloseTo(0).step() == 0);
  client.Hear(2);
  CHECK(client.CloseTo(0).members_size() == 2);
}

TEST_CASE("closures that do not train wait for a step that was scheduled before them") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  const auto evaluate = [&](uint64_t id) {
    auto closure = s.NewClosure(id);
    closure->spec.training = false;
    s.queue.Add(std::move(closure));
  };
  evaluate(1);
  s.QueueMany(2, 3);
  CHECK(s.steps.AdmitsOthers());
  REQUIRE(s.queue.Dispatch(0, /*training=*/false, /*ids_end=*/1000)->id == 1);
  // The step cannot begin yet. Those that come later do not delay it further.
  evaluate(4);
  CHECK(s.Dispatch() == 0);
  CHECK(!s.steps.AdmitsOthers());
  v1::ClosureResult result = s.ResultOf(1, s.queue.Find(1)->attempt);
  s.closures.Finish(1, &result);
  CHECK(s.Dispatch() == 2);
  CHECK(!s.steps.AdmitsOthers());
}

TEST_CASE("an error abandons the open step, and its results are void") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  s.QueueMany(1, 2);
  s.Dispatch();
  const uint64_t before = s.queue.Find(1)->step.step_try;
  s.Hear(1);
  s.steps.Abandon();
  CHECK(s.sent_to_ps(0).back().abandon_step().step_try() == before + 1);
  const Closure* const again = s.queue.Find(1);
  CHECK(again->state == Closure::State::kQueued);
  CHECK(again->min_attempt == again->attempt + 1);
  s.Dispatch();
  CHECK(again->step.step_try == before + 1);
}

}  // namespace
}  // namespace cohort
