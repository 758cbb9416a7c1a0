#include <catch2/catch.hpp>

#include "chief/core/steps_test_util.h"

namespace cohort {
namespace {

TEST_CASE(
    "a step has closures_per_step closures, which are finished when all servers have closed it") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  s.QueueMany(1, 5);
  CHECK(s.Dispatch() == 2);
  s.Hear(2);
  CHECK(s.CloseTo(0).step() == 0);
  s.Hear(1);
  const v1::CloseStep close = s.CloseTo(1);
  CHECK(close.step() == 1);
  CHECK(close.iteration() == 0);
  CHECK(close.next_place() == 3);
  REQUIRE(close.members_size() == 2);
  CHECK(close.members(0).closure() == 1);
  CHECK(close.members(1).index() == 1);
  // The next step is open, but is not closed before this one.
  CHECK(s.Dispatch() == 2);
  s.Hear(3);
  s.Hear(4);
  CHECK(s.CloseTo(0).step() == 1);
  CHECK(!s.steps.at_boundary());
  s.Closed(0, 1);
  s.Closed(0, 1);
  CHECK(!s.Done(1));
  s.Closed(1, 1);
  CHECK(s.Done(1));
  CHECK(s.Done(2));
  CHECK(!s.Done(3));
  CHECK(s.CloseTo(0).step() == 2);
  CHECK(s.CloseTo(0).iteration() == 1);
}

TEST_CASE("a chief that starts repeats a close for the servers that lack it") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  v1::PsHello ahead;
  ahead.set_timeline(1);
  ahead.mutable_last_close()->set_step(7);
  ahead.mutable_last_close()->add_members()->set_closure(14);
  ahead.mutable_last_close()->add_members()->set_closure(13);
  ahead.mutable_position()->set_open_step(8);
  ahead.mutable_position()->set_iteration(7);
  ahead.mutable_position()->set_next_place(15);
  v1::PsHello behind;
  behind.set_timeline(1);
  behind.mutable_position()->set_open_step(7);
  behind.mutable_position()->set_next_place(13);
  CHECK(s.steps.TakeOver(std::nullopt, {}, {&ahead, &behind}).next_place() == 15);
  CHECK(!s.steps.at_boundary());
  s.steps.Resume();
  CHECK(s.steps.first_of_repeated_close() == 13);
  CHECK(s.sent_to_ps(0).empty());
  CHECK(s.CloseTo(1).step() == 7);
  s.Closed(1, 7);
  CHECK(s.steps.at_boundary());
  CHECK(s.steps.first_of_repeated_close() == Settlement::kNoLimit);
}

// After a rollback to a cut in mode async, before any step was closed.
TEST_CASE("a chief that starts runs only what was pending in the old mode") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  v1::ModeChange change;
  change.set_mode("sync");
  change.set_closures_per_step(2);
  change.mutable_position()->set_open_step(1);
  change.mutable_position()->set_next_place(4);
  // Place 3 is of the cut. The ids of 4 and 5 were reserved.
  for (const uint64_t place : {3, 4, 5}) {
    s.closures.unfinished().Add({.closure = {.id = place, .place = place}, .attempt = 1});
  }
  s.steps.TakeOver(change, {}, {});
  CHECK_FALSE(s.steps.sync());
  const auto schedule = [&](uint64_t place) {
    const auto known = s.closures.unfinished().Take(place);
    REQUIRE(known.has_value());
    auto closure = s.NewClosure(place, /*by_job=*/true);
    closure->fresh = !known->begun;
    s.queue.Add(std::move(closure));
  };
  schedule(3);
  schedule(4);
  CHECK(s.Dispatch() == 1);
  s.Advance(/*next_place=*/6);
  CHECK_FALSE(s.steps.sync());
  s.queue.Remove(3);  // it has ended
  s.Advance(/*next_place=*/6);
  s.steps.OnJournaled(s.outbox.next_record() - 1);
  CHECK(s.steps.sync());
  CHECK(s.steps.open().begin().next_place() == 4);
}

TEST_CASE("a step may be closed without the last closures") {
  Gated s({.mode = ConsistencyMode::kSync,
           .closures_per_step = 3,
           .backup_work = BackupWork::kDrop,
           .replicas_to_aggregate = 2});
  s.QueueMany(1, 3);
  CHECK(s.Dispatch() == 3);
  CHECK(s.queue.Find(1)->step.partial);
  s.Hear(3);
  s.Hear(1);
  REQUIRE(s.CloseTo(0).members_size() == 2);
  CHECK(s.CloseTo(0).members(0).closure() == 1);
  CHECK(s.CloseTo(0).members(1).closure() == 3);
  // The chief tells its worker. Its data counts as used when the step is closed everywhere.
  CHECK(!s.Done(2));
  CHECK(s.sent(0).back().cancel().ids(0) == 2);
  CHECK(s.steps.counters().dropped == 1);
  s.Closed(0, 1);
  CHECK(!s.Done(2));
  s.Closed(1, 1);
  CHECK(s.Done(2));
}

TEST_CASE("with bounded staleness a closure waits for those that are too old") {
  Gated s({.mode = ConsistencyMode::kBounded, .closures_per_step = 2, .staleness = 1});
  s.QueueMany(2, 9);
  CHECK(s.Dispatch() == 4);  // places 2 to 5
  s.steps.OnEnded(*s.queue.Find(3));
  CHECK(s.Dispatch() == 0);
  s.steps.OnEnded(*s.queue.Find(2));
  CHECK(s.Dispatch() == 2);
}

}  // namespace
}  // namespace cohort
