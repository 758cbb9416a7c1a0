#include "chief/core/steps.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

// A chief with two servers and one worker, whose closures have the places 1, 2, ...
struct Gated : CoreParts {
  explicit Gated(const ModeSettings& mode, uint32_t pull_ahead = 0,
                 const LossScaling& loss_scaling = {})
      : CoreParts(1, 2, mode, pull_ahead, loss_scaling), steps(&context, &outbox, &closures) {
    for (const Task task : {WorkerTask(0), PsTask(0), PsTask(1)}) Adopt(task);
  }

  void QueueMany(uint64_t first, uint64_t last, uint64_t places_end = 1000) {
    for (uint64_t id = first; id <= last; ++id) {
      auto closure = NewClosure(id, /*by_job=*/places_end > 0);
      if (places_end > 0) closure->spec.place->places_end = places_end;
      closures.Add(std::move(closure), /*holder=*/-1, 0);
    }
  }
  // Dispatches what the gate admits. Returns how many closures that were.
  size_t Dispatch() {
    size_t count = 0;
    for (const Closure* next = closures.queue().NextTraining();
         next != nullptr && steps.Admits(*next); next = closures.queue().NextTraining(), ++count) {
      steps.Enter(closures.Dispatch(0, /*training=*/true, /*ids_end=*/1000));
    }
    return count;
  }
  void Hear(uint64_t id, bool finite = true) {
    Closure* const c = closures.Find(id);
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
    s.closures.Add(std::move(closure), /*holder=*/-1, 0);
  };
  evaluate(1);
  s.QueueMany(2, 3);
  CHECK(s.steps.AdmitsOthers());
  REQUIRE(s.closures.Dispatch(0, /*training=*/false, /*ids_end=*/1000)->id == 1);
  // The step cannot begin yet. Those that come later do not delay it further.
  evaluate(4);
  CHECK(s.Dispatch() == 0);
  CHECK(!s.steps.AdmitsOthers());
  v1::ClosureResult result = s.ResultOf(1, s.closures.Find(1)->attempt);
  s.closures.Finish(1, &result);
  CHECK(s.Dispatch() == 2);
  CHECK(!s.steps.AdmitsOthers());
}

TEST_CASE("an error abandons the open step, and its results are void") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2});
  s.QueueMany(1, 2);
  s.Dispatch();
  const uint64_t before = s.closures.Find(1)->step.step_try;
  s.Hear(1);
  s.steps.Abandon();
  CHECK(s.sent_to_ps(0).back().abandon_step().step_try() == before + 1);
  const Closure* const again = s.closures.Find(1);
  CHECK(again->state == Closure::State::kQueued);
  CHECK(again->min_attempt == again->attempt + 1);
  s.Dispatch();
  CHECK(again->step.step_try == before + 1);
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
  CHECK(s.steps.TakeOver(std::nullopt, {&ahead, &behind}).next_place() == 15);
  CHECK(!s.steps.at_boundary());
  s.steps.Resume();
  CHECK(s.steps.first_of_repeated_close() == 13);
  CHECK(s.sent_to_ps(0).empty());
  CHECK(s.CloseTo(1).step() == 7);
  s.Closed(1, 7);
  CHECK(s.steps.at_boundary());
  CHECK(s.steps.first_of_repeated_close() == Settlement::kNoLimit);
}

TEST_CASE("a step may be closed without the last closures") {
  Gated s({.mode = ConsistencyMode::kSync,
           .closures_per_step = 3,
           .backup_work = BackupWork::kDrop,
           .replicas_to_aggregate = 2});
  s.QueueMany(1, 3);
  CHECK(s.Dispatch() == 3);
  CHECK(s.closures.Find(1)->step.partial);
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

constexpr LossScaling kScaling{.initial = 1024, .growth_steps = 2};

// Dispatches the closures first and first + 1, hears them, and closes the step on both servers.
// Returns the message that closed it.
v1::CloseStep CloseTwo(Gated* s, uint64_t first, bool finite) {
  CHECK(s->Dispatch() == 2);
  s->Hear(first, finite);
  s->Hear(first + 1);
  v1::CloseStep close = s->CloseTo(0);
  CHECK(s->CloseTo(1).SerializeAsString() == close.SerializeAsString());
  s->Closed(0, close.step());
  s->Closed(1, close.step());
  return close;
}

TEST_CASE("a step with a gradient that is not finite is skipped, and the scale is halved") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  s.QueueMany(1, 8);
  CHECK(s.steps.open().loss_scale() == 1024);
  const v1::CloseStep first = CloseTwo(&s, 1, /*finite=*/false);
  CHECK(first.skip());
  CHECK(first.iteration() == 0);
  CHECK(first.loss_scale().scale() == 512);
  CHECK(s.Done(1));
  CHECK(s.Done(2));
  CHECK(s.steps.open().loss_scale() == 512);
  const v1::CloseStep second = CloseTwo(&s, 3, /*finite=*/true);
  CHECK(!second.skip());
  CHECK(second.step() == 2);
  CHECK(second.iteration() == 0);  // the skipped step was none
  CHECK(second.next_place() == 5);
  CHECK(second.loss_scale().finite_steps() == 1);
  const v1::CloseStep third = CloseTwo(&s, 5, /*finite=*/true);
  CHECK(third.iteration() == 1);
  CHECK(third.loss_scale().scale() == 1024);
  CHECK(s.steps.open().begin().iteration() == 2);
  CHECK(s.steps.counters().skipped == 1);
}

TEST_CASE("an abandoned step keeps its scale") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  s.QueueMany(1, 2);
  s.Dispatch();
  s.Hear(1, /*finite=*/false);
  s.steps.Abandon();
  CHECK(s.steps.open().loss_scale() == 1024);
  CHECK(s.steps.counters().skipped == 0);
}

TEST_CASE("a closure without which a step is closed does not make it skipped") {
  Gated s({.mode = ConsistencyMode::kSync,
           .closures_per_step = 2,
           .backup_work = BackupWork::kDrop,
           .replicas_to_aggregate = 1},
          0, kScaling);
  s.QueueMany(1, 2);
  s.Dispatch();
  s.Hear(2);
  CHECK(s.CloseTo(0).members(0).closure() == 2);
  CHECK(!s.CloseTo(0).skip());
}

TEST_CASE("restarts, rollbacks and a repeated close continue with the scale") {
  Gated s({.mode = ConsistencyMode::kSync, .closures_per_step = 2}, 0, kScaling);
  v1::PsHello ahead;
  ahead.set_timeline(1);
  ahead.mutable_last_close()->set_step(7);
  ahead.mutable_last_close()->set_skip(true);
  ahead.mutable_position()->set_open_step(8);
  ahead.mutable_position()->set_iteration(5);
  ahead.mutable_position()->set_next_place(15);
  ahead.mutable_position()->mutable_loss_scale()->set_scale(256);
  ahead.mutable_position()->mutable_loss_scale()->set_finite_steps(1);
  v1::PsHello behind;
  behind.set_timeline(1);
  behind.mutable_position()->set_open_step(7);
  behind.mutable_position()->set_next_place(13);
  behind.mutable_position()->mutable_loss_scale()->set_scale(512);
  s.steps.TakeOver(std::nullopt, {&ahead, &behind});
  CHECK(s.steps.open().loss_scale() == 256);
  s.steps.Resume();
  CHECK(s.CloseTo(1).step() == 7);
  CHECK(s.CloseTo(1).skip());
  v1::ChiefCut cut;
  *cut.mutable_position() = behind.position();
  s.steps.RollBack(cut);
  CHECK(s.steps.open().loss_scale() == 512);
  s.steps.RollBack(v1::ChiefCut());  // to the beginning
  CHECK(s.steps.open().loss_scale() == 1024);
}

TEST_CASE("a job without a loss scale, and an asynchronous one, has none") {
  Gated sync({.mode = ConsistencyMode::kSync, .closures_per_step = 1});
  sync.QueueMany(1, 1);
  CHECK(sync.steps.open().loss_scale() == 0);
  sync.Dispatch();
  sync.Hear(1, /*finite=*/false);
  CHECK(!sync.CloseTo(0).skip());
  CHECK(!sync.CloseTo(0).has_loss_scale());
  CHECK(Gated({.mode = ConsistencyMode::kAsync}, 0, kScaling).steps.open().loss_scale() == 0);
}

TEST_CASE("with bounded staleness a closure waits for those that are too old") {
  Gated s({.mode = ConsistencyMode::kBounded, .closures_per_step = 2, .staleness = 1});
  s.QueueMany(2, 9);
  CHECK(s.Dispatch() == 4);  // places 2 to 5
  s.steps.OnEnded(*s.closures.Find(3));
  CHECK(s.Dispatch() == 0);
  s.steps.OnEnded(*s.closures.Find(2));
  CHECK(s.Dispatch() == 2);
}

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

TEST_CASE("the mode changes between two steps, and is journaled first") {
  Gated s({.mode = ConsistencyMode::kAsync});
  s.QueueMany(1, 6);
  s.steps.Enter(s.closures.Dispatch(0, true, 1000));
  REQUIRE(s.steps.SetMode({.mode = ConsistencyMode::kSync, .closures_per_step = 2}).ok());
  CHECK(absl::IsFailedPrecondition(s.steps.SetMode({})));
  CHECK(s.Dispatch() == 0);
  s.Advance(7);
  CHECK(s.world.writing.empty());
  v1::ClosureResult result = CoreParts::ResultOf(1, s.closures.Find(1)->attempt);
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
