#ifndef COHORT_CHIEF_CORE_STEPS_TEST_UTIL_H_
#define COHORT_CHIEF_CORE_STEPS_TEST_UTIL_H_

#include <catch2/catch.hpp>
#include <utility>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/steps.h"

namespace cohort {

// A chief with two servers and one worker, whose closures have the places 1, 2, ...
struct Gated : CoreParts {
  explicit Gated(const ModeSettings& mode, uint32_t pull_ahead = 0,
                 const LossScaling& loss_scaling = {})
      : CoreParts(1, 2, mode, pull_ahead, loss_scaling),
        steps(&context, &outbox, &closures, &homes) {
    for (const Task task : {WorkerTask(0), PsTask(0), PsTask(1)}) Adopt(task);
  }

  void QueueMany(uint64_t first, uint64_t last, uint64_t places_end = 1000) {
    for (uint64_t id = first; id <= last; ++id) {
      auto closure = NewClosure(id, /*by_job=*/places_end > 0);
      if (places_end > 0) closure->spec.place->places_end = places_end;
      queue.Add(std::move(closure));
    }
  }
  // Dispatches what the gate admits. Returns how many closures that were.
  size_t Dispatch() {
    size_t count = 0;
    for (const Closure* next = closures.queue().NextTraining();
         next != nullptr && steps.Admits(*next); next = closures.queue().NextTraining(), ++count) {
      steps.Enter(queue.Dispatch(0, /*training=*/true, /*ids_end=*/1000));
    }
    return count;
  }
  void Hear(uint64_t id, bool finite = true) {
    Closure* const c = queue.Find(id);
    v1::ClosureResult result = ResultOf(id, c->attempt);
    result.set_not_finite_steps(finite ? 0 : 1);
    steps.OnHeard(c, &result);
    Advance();
  }
  void Closed(int ps, uint64_t step) {
    v1::PsToChief answer;
    answer.mutable_step_closed()->set_step(step);
    CHECK(steps.OnPsMessage(ps, answer).ok());
    Advance();
  }
  void AddWaiting(int clients) {
    steps.AddWaiting(clients);
    Advance();
  }
  void Advance(uint64_t next_place = 0) { steps.Advance(next_place, /*rolls_back=*/false); }
  // The newest message to a server, if it closes a step.
  v1::CloseStep CloseTo(int ps) {
    return sent_to_ps(ps).empty() ? v1::CloseStep() : sent_to_ps(ps).back().close_step();
  }
  bool Done(uint64_t id) { return world.done.contains(id); }

  Steps steps;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_STEPS_TEST_UTIL_H_
