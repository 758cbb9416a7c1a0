#include <catch2/catch.hpp>

#include "chief/core/steps_test_util.h"

namespace cohort {
namespace {

TEST_CASE("the mode of a job that pulls ahead stays asynchronous") {
  Gated s({.mode = ConsistencyMode::kAsync}, /*pull_ahead=*/2);
  for (const ConsistencyMode mode : {ConsistencyMode::kSync, ConsistencyMode::kBounded}) {
    const absl::Status changed = s.steps.SetMode({.mode = mode});
    CHECK(absl::IsFailedPrecondition(changed));
    CHECK_THAT(std::string(changed.message()), Catch::Contains("pull_ahead: 2"));
  }
  CHECK_FALSE(s.steps.mode().changing());
  CHECK(s.steps.SetMode({.mode = ConsistencyMode::kAsync}).ok());
}

TEST_CASE("the mode of a job with copies of hot rows has no bound of staleness") {
  Gated s({.mode = ConsistencyMode::kAsync});
  CoreOptions options = s.context.options;
  options.hot_rows = true;
  const CoreContext context(options);
  ModeSwitch mode(&context, &s.outbox, &s.closures);
  const absl::Status changed = mode.Request({.mode = ConsistencyMode::kBounded}, /*clips=*/false);
  CHECK(absl::IsFailedPrecondition(changed));
  CHECK_THAT(std::string(changed.message()), Catch::Contains("strategy.hot_rows"));
  CHECK_FALSE(mode.changing());
  CHECK(mode.Request({.mode = ConsistencyMode::kSync}, /*clips=*/false).ok());
}

TEST_CASE("the mode changes between two steps, and is journaled first") {
  Gated s({.mode = ConsistencyMode::kAsync});
  s.QueueMany(1, 6);
  s.steps.Enter(s.queue.Dispatch(0, true, 1000));
  REQUIRE(s.steps.SetMode({.mode = ConsistencyMode::kSync, .closures_per_step = 2}).ok());
  CHECK(absl::IsFailedPrecondition(s.steps.SetMode({})));
  CHECK(s.Dispatch() == 0);
  s.Advance(7);
  CHECK(s.world.writing.empty());
  v1::ClosureResult result = CoreParts::ResultOf(1, s.queue.Find(1)->attempt);
  s.closures.Finish(1, &result);
  s.Advance(7);
  REQUIRE(s.world.writing.size() == 2);
  CHECK(s.world.writing.front().settle().watermark() == 2);
  const v1::ModeChange change = s.world.writing.back().mode();
  CHECK(change.mode() == "sync");
  CHECK(change.position().next_place() == 2);
  CHECK(change.position().iteration() == 2);
  CHECK(s.Dispatch() == 0);
  s.steps.OnJournaled(s.world.writing.back().number());
  CHECK(!s.steps.mode().changing());
  CHECK(s.Dispatch() == 2);
  s.Hear(2);
  s.Hear(3);
  CHECK(s.CloseTo(0).iteration() == 2);
  s.Closed(0, 1);
  s.Closed(1, 1);
  // Back again: three updates have been made before place 4.
  REQUIRE(s.steps.SetMode({.mode = ConsistencyMode::kAsync}).ok());
  s.Advance(7);
  s.steps.OnJournaled(s.world.writing.back().number());
  CHECK(!s.steps.mode().changing());
  CHECK(s.steps.mode().iteration_offset() == 3 - 4);
}

}  // namespace
}  // namespace cohort
