#include "chief/core/closure_scheduler.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

struct Scheduling : CoreParts {
  Scheduling() : CoreParts(1, 1), scheduler(&context, &outbox, &settlement, &closures) {
    scheduler.Reset(/*reserved_end=*/1, /*next_place=*/0);
  }
  absl::StatusOr<uint64_t> Schedule(uint64_t place, uint32_t steps = 1) {
    return scheduler.Schedule({.step = {.program = 0},
                               .steps = steps,
                               .place = JobPlace{place, 100},
                               .token = 50 + place});
  }
  // An earlier incarnation of the chief has dispatched closure 41 of place 6.
  void RestoreDispatched() {
    context.era = EraOf(/*generation=*/2, /*timeline=*/1);
    closures.Restore({{.id = 41, .place = 6, .steps = 2}}, /*min_attempt=*/2);
  }
  ClosureScheduler scheduler;
};

TEST_CASE("new closures get ids and places in order, and their ids are reserved first") {
  Scheduling s;
  CHECK(*s.Schedule(0) == 1);
  CHECK(*s.Schedule(1) == 2);
  CHECK(s.scheduler.next_place() == 2);
  CHECK(s.scheduler.durable_end() == 1);
  REQUIRE(!s.world.writing.empty());
  CHECK(s.scheduler.OnJournaled(1));
  CHECK(s.scheduler.durable_end() > 2);
  CHECK(s.closures.queue().queued() == 2);
  // A training closure of the user gets the next place.
  const auto id = s.scheduler.Schedule({.step = {.program = 0}});
  REQUIRE(id.ok());
  CHECK(s.closures.queue().Find(*id)->place == 2);
  CHECK(s.scheduler.next_place() == 3);
}

TEST_CASE("the unfinished closure of a place is taken up under its id") {
  Scheduling s;
  s.closures.Restore({{.id = 41, .place = 6, .steps = 2}}, /*min_attempt=*/1);
  CHECK(absl::IsInternal(s.Schedule(6, /*steps=*/3).status()));
  SECTION("it waits") {
    CHECK(*s.Schedule(6, 2) == 41);
    CHECK(s.closures.queue().queued() == 1);
  }
  SECTION("a worker has it") {
    s.RestoreDispatched();
    REQUIRE(s.closures.Claim(41, 0, 4));
    CHECK(*s.Schedule(6, 2) == 41);
    CHECK(s.closures.queue().InFlightOn(0) == std::deque<uint64_t>{41});
  }
  SECTION("its result came first") {
    s.RestoreDispatched();
    v1::ClosureResult result = CoreParts::ResultOf(41, 4);
    REQUIRE(s.closures.FinishUnfinished(&result));
    CHECK(*s.Schedule(6, 2) == 41);
    CHECK(s.world.done.at(56).ok());
    CHECK(s.closures.queue().size() == 0);
  }
}

}  // namespace
}  // namespace cohort
