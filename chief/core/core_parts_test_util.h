#ifndef COHORT_CHIEF_CORE_CORE_PARTS_TEST_UTIL_H_
#define COHORT_CHIEF_CORE_CORE_PARTS_TEST_UTIL_H_

#include <memory>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/core_test_world.h"
#include "chief/core/homes.h"
#include "chief/core/membership.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/recovery.h"
#include "chief/core/servers.h"
#include "chief/core/settlement.h"
#include "chief/core/worker_setup.h"

namespace cohort {

// The lower parts of a core, for tests of one part. `world` receives messages to tasks, records and
// the ends of closures. The chief is ready, at timeline 1 of generation 1; all tasks are away.
struct CoreParts {
  CoreParts(int workers, int ps, const ModeSettings& mode = {}, uint32_t pull_ahead = 0,
            const LossScaling& loss_scaling = {}, bool ring = false)
      : world(workers, ps),
        context(OptionsWith(world.options, mode, pull_ahead, loss_scaling, ring)),
        outbox(&world),
        membership(&context.options, &outbox),
        servers(&context, &outbox, &membership),
        homes(&context, &outbox, &membership, &servers),
        settlement(&outbox, 50'000),
        setup(&context, &outbox, &settlement),
        queue(context.options.queue_capacity, context.options.workers.size()),
        error(&context, &queue, &unfinished),
        closures(&context, &outbox, &settlement, &queue, &unfinished, &error) {
    context.phase = CorePhase::kReady;
    context.now_us = 1'000'000;
    context.timeline = 1;
    context.era = EraOf(1, 1);
    outbox.SetGeneration(1);
    settlement.Reset(1, 1, {});
    homes.Assign(OneTabletEach(ps), 1);
  }

  // A layout with a tablet on each server.
  static v1::Layout OneTabletEach(int ps) {
    v1::Layout layout;
    for (uint32_t i = 0; i < static_cast<uint32_t>(ps); ++i) {
      v1::TabletSpec* const tablet = layout.add_tablets();
      tablet->set_tablet(i);
      tablet->set_ps(i);
    }
    return layout;
  }

  static CoreOptions OptionsWith(CoreOptions options, const ModeSettings& mode, uint32_t pull_ahead,
                                 const LossScaling& loss_scaling, bool ring) {
    static_cast<ModeSettings&>(options) = mode;
    options.pull_ahead = pull_ahead;
    options.loss_scaling = loss_scaling;
    options.ring = ring;
    return options;
  }
  void Adopt(Task task, uint64_t incarnation = 1) {
    const size_t i = static_cast<size_t>(task.index);
    (task.role == Role::kWorker ? world.workers[i].connected : world.ps[i].connected) = true;
    membership.member(task).link = Link::kAdopted;
    membership.member(task).incarnation = incarnation;
  }
  // Adopts a worker and sets it up.
  void MakeReady(int worker) {
    Adopt(WorkerTask(worker));
    setup.Finish(worker);
  }
  // Queues a closure of program 0, with the id as its place and token.
  void Queue(uint64_t id, bool by_job = true) { queue.Add(NewClosure(id, by_job)); }
  static std::unique_ptr<Closure> NewClosure(uint64_t id, bool by_job = true) {
    auto closure = std::make_unique<Closure>();
    closure->id = id;
    closure->spec = {.step = {.program = 0}, .token = id};
    if (by_job) closure->spec.place = JobPlace{.place = id};
    closure->place = id;
    return closure;
  }
  static v1::ClosureResult ResultOf(uint64_t id, uint32_t attempt,
                                    absl::StatusCode code = absl::StatusCode::kOk) {
    v1::ClosureResult result;
    result.set_id(id);
    result.set_attempt(attempt);
    result.set_steps(1);
    result.mutable_status()->set_code(static_cast<int>(code));
    return result;
  }
  std::deque<v1::ChiefToWorker>& sent(int worker) {
    return world.workers[static_cast<size_t>(worker)].in;
  }
  std::deque<v1::ChiefToPs>& sent_to_ps(int ps) { return world.ps[static_cast<size_t>(ps)].in; }

  TestWorld world;
  CoreContext context;
  Outbox outbox;
  Membership membership;
  Servers servers;
  Homes homes;
  Settlement settlement;
  WorkerSetup setup;
  ClosureQueue queue;
  UnfinishedClosures unfinished;
  JobError error;
  OpenClosures closures;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_PARTS_TEST_UTIL_H_
