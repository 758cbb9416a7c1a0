#include "chief/core/open_closures.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("a closure that succeeds is settled and counted; one that fails depends on its owner") {
  CoreParts p(1, 1);
  p.Queue(1);
  p.Queue(2, /*by_job=*/false);
  p.Queue(3);
  v1::ClosureResult result = CoreParts::ResultOf(1, 1);
  result.set_applied(2);
  p.closures.Finish(1, &result);
  CHECK(p.settlement.IsDone(1));
  CHECK(p.closures.counters().finished == 1);
  CHECK(p.closures.counters().applied == 2);
  CHECK(p.world.done.at(1).ok());

  p.closures.EndFailed(2, Internal("no"));
  CHECK(p.settlement.IsDone(2));  // nobody schedules it again
  p.closures.EndFailed(3, Internal("no"));
  CHECK(!p.settlement.IsDone(3));
  REQUIRE(p.closures.unfinished().List().size() == 1);
  CHECK(p.closures.unfinished().List()[0].id == 3);
  CHECK(absl::IsInternal(p.world.done.at(3)));
}

TEST_CASE("the first error cancels what waits and is ready when nothing is in flight") {
  CoreParts p(1, 1);
  p.Queue(1);
  p.Queue(2);
  REQUIRE(p.queue.Dispatch(0, true, 100) != nullptr);
  CHECK(p.closures.Raise(Internal("first")));
  CHECK(!p.closures.Raise(Internal("second")));
  CHECK(absl::IsAborted(p.world.done.at(2)));
  CHECK(p.error.cancelling());
  CHECK(p.error.Take().ok());
  CHECK(!p.error.CancelOverdue());
  p.context.now_us += p.context.options.cancel_deadline_us;
  CHECK(p.error.CancelOverdue());
  CHECK(!p.error.CancelOverdue());  // the time starts again
  p.closures.Cancel(1);
  CHECK(!p.error.cancelling());
  CHECK(p.error.Take().message() == "first");
  CHECK(p.error.Take().ok());
}

TEST_CASE("a closure that was dispatched or has killed workers too often is at a limit") {
  CoreParts p(1, 1);
  p.Queue(1);
  Closure* const c = p.queue.Dispatch(0, true, 100);
  CHECK(p.closures.Requeue(c).ok());
  CHECK(p.closures.counters().requeued == 1);
  c->killed.assign(p.context.options.max_attempts, WorkerTask(0));
  CHECK(absl::IsAborted(p.closures.CheckLimits(*c)));
  c->killed.clear();
  c->attempt = AttemptBase(p.context.era) + kAttemptsPerEra;
  CHECK(absl::IsUnavailable(p.closures.CheckLimits(*c)));
}

TEST_CASE("results of an older timeline do not count, whatever closures had the ids there") {
  CoreParts p(1, 1);
  p.context.era = EraOf(/*generation=*/3, /*timeline=*/3);
  const uint32_t first = AttemptBase(EraOf(/*generation=*/2, /*timeline=*/3)) + 1;
  p.closures.Restore({{.id = 5, .place = 12, .steps = 1}}, first);
  const uint32_t older = AttemptBase(EraOf(/*generation=*/2, /*timeline=*/2)) + 1;
  CHECK_FALSE(p.closures.Claim(5, /*worker=*/0, older));
  CHECK(p.closures.unfinished().OnResult(CoreParts::ResultOf(5, older)) ==
        UnfinishedClosures::Outcome::kUnknown);
  CHECK(p.closures.unfinished().OnResult(CoreParts::ResultOf(5, first)) ==
        UnfinishedClosures::Outcome::kFinished);
}

TEST_CASE("a cut names what was dispatched or is unfinished; a rollback leaves that unfinished") {
  CoreParts p(1, 1);
  p.Queue(5);
  REQUIRE(p.queue.Dispatch(0, true, 100) != nullptr);
  p.Queue(7);
  p.closures.Restore({{.id = 3, .place = 2, .steps = 1}}, /*min_attempt=*/1);
  v1::ChiefCut cut;
  uint64_t next_place = 8;
  p.closures.FillPending(&cut, &next_place);
  REQUIRE(cut.pending_size() == 2);
  SECTION("an id that was only reserved") {
    p.closures.unfinished().NoteNotBegunFrom(2);
    v1::ChiefCut begun;
    next_place = 8;
    p.closures.FillPending(&begun, &next_place);
    CHECK(begun.pending_size() == 1);
    CHECK(next_place == 2);
    return;
  }
  CHECK(cut.pending(0).id() == 3);
  CHECK(cut.pending(1).id() == 5);
  CHECK(next_place == 7);  // closure 7 was never dispatched
  p.closures.RollBack(cut);
  CHECK(absl::IsAborted(p.world.done.at(7)));
  CHECK(p.closures.queue().size() == 0);
  CHECK(p.closures.unfinished().List().size() == 2);
}

}  // namespace
}  // namespace cohort
