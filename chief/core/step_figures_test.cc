#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/steps.h"

namespace cohort {
namespace {

// The parts of a synchronous core below Steps, with one server and a clock of its own.
struct Stepping {
  explicit Stepping(uint32_t closures_per_step)
      : world(1, 1),
        context([&] {
          world.options.mode = ConsistencyMode::kSync;
          world.options.closures_per_step = closures_per_step;
          world.options.clock_us = [this] { return clock_us; };
          return world.options;
        }()),
        outbox(&world),
        settlement(&outbox, 50'000),
        queue(1000, 1),
        error(&context, &queue, &unfinished),
        closures(&context, &outbox, &settlement, &queue, &unfinished, &error),
        membership(&context.options, &outbox),
        servers(&context, &outbox, &membership),
        homes(&context, &outbox, &membership, &servers),
        steps(&context, &outbox, &closures, &homes) {
    homes.Assign(CoreParts::OneTabletEach(static_cast<int>(context.options.ps.size())), 1);
    outbox.SetGeneration(1);
    settlement.Reset(1, 1, {});
  }
  void Dispatch(uint64_t id) {
    auto closure = CoreParts::NewClosure(id);
    closure->spec.place->places_end = 100;
    queue.Add(std::move(closure));
    steps.Enter(queue.Dispatch(0, /*training=*/true, 100));
  }
  void Hear(uint64_t id, int64_t at_us) {
    clock_us = at_us;
    v1::ClosureResult result = CoreParts::ResultOf(id, 1);
    steps.OnHeard(queue.Find(id), &result);
    steps.Advance(/*next_place=*/0, /*rolls_back=*/false);
  }

  int64_t clock_us = 0;
  TestWorld world;
  CoreContext context;
  Outbox outbox;
  Settlement settlement;
  ClosureQueue queue;
  UnfinishedClosures unfinished;
  JobError error;
  OpenClosures closures;
  Membership membership;
  Servers servers;
  Homes homes;
  Steps steps;
};

TEST_CASE("the time from the median of a step's members to the last one counts as waiting") {
  Stepping s(3);
  for (const uint64_t id : {1, 2, 3}) s.Dispatch(id);
  s.Hear(2, 100);
  s.Hear(1, 250);
  s.Hear(3, 900);
  CHECK(s.steps.counters().waited_us == 650);
  v1::PsToChief answer;
  answer.mutable_step_closed()->set_step(1);
  CHECK(s.steps.OnPsMessage(0, answer).ok());
  s.steps.Advance(/*next_place=*/0, /*rolls_back=*/false);
  CHECK(s.steps.counters().steps_closed == 1);
  for (const uint64_t id : {4, 5, 6}) s.Dispatch(id);
  for (const uint64_t id : {4, 5, 6}) s.Hear(id, 1000);
  CHECK(s.steps.counters().waited_us == 650);
}

TEST_CASE("a step of one closure waits for nobody") {
  Stepping s(1);
  s.Dispatch(1);
  s.Hear(1, 700);
  CHECK(s.steps.counters().waited_us == 0);
}

TEST_CASE("the staleness of an epoch is counted apart") {
  Stepping s(1);
  const auto finish = [&s](uint64_t id, uint64_t max, uint64_t sum) {
    s.queue.Add(CoreParts::NewClosure(id));
    s.queue.Dispatch(0, /*training=*/true, 100);
    v1::ClosureResult result = CoreParts::ResultOf(id, 1);
    result.set_applied(4);
    result.set_max_staleness(max);
    result.set_sum_staleness(sum);
    s.closures.Finish(id, &result);
  };
  finish(1, 5, 10);
  finish(2, 3, 6);
  CHECK(s.closures.counters().epoch_staleness.mean() == 2);
  CHECK(s.closures.counters().epoch_staleness.max == 5);
  s.closures.EndEpoch();
  CHECK(s.closures.counters().epoch_staleness.mean() == 0);
  finish(3, 1, 4);
  CHECK(s.closures.counters().epoch_staleness.mean() == 1);
  CHECK(s.closures.counters().epoch_staleness.max == 1);
  CHECK(s.closures.counters().max_staleness == 5);
  CHECK(s.closures.counters().sum_staleness == 20);
}

}  // namespace
}  // namespace cohort
