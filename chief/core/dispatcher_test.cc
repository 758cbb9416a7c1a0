#include "chief/core/dispatcher.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// Two workers that are set up; each may have four closures.
struct Dispatching : CoreParts {
  explicit Dispatching(const ModeSettings& mode = {}, bool ring = false)
      : CoreParts(2, 1, mode, /*pull_ahead=*/0, {}, ring),
        dispatcher({.context = &context,
                    .outbox = &outbox,
                    .membership = &membership,
                    .settlement = &settlement,
                    .setup = &setup,
                    .closures = &closures,
                    .error = &error,
                    .steps = &steps,
                    .gate = [this] { return gate; }}) {
    setup.AddProgram("program", v1::Program());
    MakeReady(0);
    MakeReady(1);
    sent(0).clear();
    sent(1).clear();
  }
  void QueueMany(uint64_t n) {
    for (uint64_t id = 1; id <= n; ++id) Queue(id);
  }
  bool Report(int worker, uint64_t id, uint32_t attempt, absl::StatusCode code) {
    google::protobuf::RepeatedPtrField<v1::ClosureResult> results;
    *results.Add() = ResultOf(id, attempt, code);
    return dispatcher.OnResults(worker, &results);
  }
  void Refill(int worker) {
    dispatcher.Wake(worker);
    dispatcher.Advance();
  }
  void RefillAll() {
    dispatcher.WakeAll();
    dispatcher.Advance();
  }
  const std::deque<uint64_t>& InFlight(int worker) { return closures.queue().InFlightOn(worker); }

  DispatchGate gate{.open = true, .training = true, .ids_end = 1000};
  Steps steps{&context, &outbox, &closures, &homes};
  Dispatcher dispatcher;
};

TEST_CASE("nothing is dispatched through a closed gate, and no id beyond it") {
  Dispatching d;
  d.QueueMany(8);
  d.gate.open = false;
  d.RefillAll();
  CHECK(d.sent(0).empty());
  d.gate = {.open = true, .training = true, .ids_end = 3};
  d.Refill(0);
  REQUIRE(d.sent(0).size() == 1);
  CHECK(d.sent(0)[0].dispatch().closures_size() == 2);
  CHECK(d.sent(0)[0].dispatch().closures(0).program() == "program");
}

TEST_CASE("metrics that cannot be folded fail their closure") {
  Dispatching d;
  d.QueueMany(1);
  d.RefillAll();
  google::protobuf::RepeatedPtrField<v1::ClosureResult> results;
  *results.Add() = CoreParts::ResultOf(1, 1);
  results[0].add_metrics()->add_accumulators()->set_name("empty");
  d.dispatcher.OnResults(d.InFlight(0).empty() ? 1 : 0, &results);
  REQUIRE(d.closures.failed());
  CHECK(d.settlement.metrics().empty());
}

TEST_CASE("one message carries several closures, and each worker gets its share") {
  Dispatching d;
  d.QueueMany(6);
  d.RefillAll();
  CHECK(d.InFlight(0).size() == 3);
  CHECK(d.InFlight(1).size() == 3);
  CHECK(d.dispatcher.counters().dispatch_messages == 2);
}

TEST_CASE("the closures of a lost worker go to the others; only the first can have killed it") {
  Dispatching d;
  d.QueueMany(4);
  d.RefillAll();
  REQUIRE(d.InFlight(0).size() == 2);
  d.membership.member(WorkerTask(0)).link = Link::kDown;
  d.dispatcher.OnLost(0);
  d.setup.OnLost(0);
  CHECK(d.closures.queue().Find(1)->killed.size() == 1);
  CHECK(d.closures.queue().Find(2)->killed.empty());
  d.RefillAll();
  CHECK(d.InFlight(1).size() == 4);
}

TEST_CASE("a closure that is given back waits again; every fourth time its worker is set aside") {
  Dispatching d;
  d.setup.OnLost(1);
  d.QueueMany(1);
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    d.Refill(0);
    REQUIRE(d.InFlight(0).size() == 1);
    CHECK(d.dispatcher.pace().available(0));
    CHECK(d.Report(0, 1, attempt, absl::StatusCode::kAborted));
  }
  CHECK(!d.dispatcher.pace().available(0));
  CHECK(!d.Report(0, 1, 2, absl::StatusCode::kAborted));  // that attempt is over
  CHECK(d.dispatcher.counters().late_results == 1);
}

TEST_CASE("what a cut takes back counts for no limit, and is asked for once") {
  Dispatching d;
  d.setup.OnLost(1);
  d.QueueMany(3);
  for (uint32_t attempt = 1; attempt <= 5; ++attempt) {
    d.Refill(0);
    d.sent(0).clear();
    d.dispatcher.Recall();
    d.dispatcher.Recall();
    REQUIRE(d.sent(0).size() == 1);
    CHECK(d.sent(0)[0].cancel().queued_only());
    CHECK(d.sent(0)[0].cancel().ids_size() == 3);
    google::protobuf::RepeatedPtrField<v1::ClosureResult> results;
    for (const uint64_t id : {2, 3, 1}) {
      v1::ClosureResult* const result = results.Add();
      *result = CoreParts::ResultOf(id, attempt, absl::StatusCode::kCancelled);
      result->set_not_started(true);
    }
    CHECK(!d.dispatcher.OnResults(0, &results));
    CHECK(d.InFlight(0).empty());
  }
  CHECK(d.dispatcher.pace().available(0));
  CHECK(d.closures.counters().requeued == 0);
  CHECK(d.queue.Find(1)->give_backs == 0);
}

TEST_CASE("a worker that gives closures back makes no progress by that") {
  Dispatching d;
  d.setup.OnLost(1);
  d.QueueMany(2);
  d.Refill(0);
  d.context.now_us += 5'000'000;
  google::protobuf::RepeatedPtrField<v1::ClosureResult> results;
  *results.Add() = CoreParts::ResultOf(2, 1, absl::StatusCode::kCancelled);
  results.Mutable(0)->set_not_started(true);
  d.dispatcher.OnResults(0, &results);
  CHECK(d.InFlight(0) == std::deque<uint64_t>{1});
  CHECK(d.dispatcher.pace().silent_us(0) == 5'000'000);
}

TEST_CASE("an error cancels what workers have, and a worker that keeps it is dropped") {
  Dispatching d;
  d.QueueMany(4);
  d.RefillAll();
  CHECK(!d.Report(0, 1, 1, absl::StatusCode::kInvalidArgument));
  CHECK(d.error.cancelling());
  REQUIRE(d.sent(0).back().has_cancel());
  CHECK(d.sent(0).back().cancel().ids_size() == 1);
  CHECK(d.sent(1).back().cancel().ids_size() == 2);
  d.Report(0, 2, 1, absl::StatusCode::kCancelled);
  d.Report(1, 3, 1, absl::StatusCode::kCancelled);
  d.context.now_us += d.context.options.cancel_deadline_us;
  d.dispatcher.Tick();
  d.dispatcher.OnLost(1);
  CHECK(!d.error.cancelling());
  CHECK(absl::IsInvalidArgument(d.error.Take()));
}

TEST_CASE("a worker that returns keeps what no other worker has") {
  Dispatching d;
  d.QueueMany(2);
  d.setup.OnLost(1);
  d.Refill(0);
  REQUIRE(d.InFlight(0).size() == 2);
  d.dispatcher.OnLost(0);
  d.setup.Finish(1);
  d.gate.ids_end = 2;
  d.Refill(1);  // takes closure 1 under a new attempt
  REQUIRE(d.InFlight(1) == std::deque<uint64_t>{1});
  v1::WorkerHello hello;
  hello.set_timeline(1);
  for (const uint64_t id : {1, 2}) {
    v1::ClosureAttempt* const hand = hello.add_in_hand();
    hand->set_id(id);
    hand->set_attempt(1);
  }
  d.sent(0).clear();
  d.dispatcher.OnReturned(0, &hello);
  CHECK(d.InFlight(0) == std::deque<uint64_t>{2});
  REQUIRE(d.sent(0).size() == 1);
  REQUIRE(d.sent(0)[0].cancel().ids_size() == 1);
  CHECK(d.sent(0)[0].cancel().ids(0) == 1);
}

// Two replicas that sum dense gradients in a ring, four closures a step. Closures have places 1, 2,
// ...
struct InRing : Dispatching {
  explicit InRing(const ModeSettings& mode = {.mode = ConsistencyMode::kSync,
                                              .closures_per_step = 5})
      : Dispatching(mode, /*ring=*/true) {
    Adopt(PsTask(0));
  }
  void QueueMany(uint64_t first, uint64_t last, uint64_t places_end = 100) {
    for (uint64_t id = first; id <= last; ++id) {
      auto closure = NewClosure(id, /*by_job=*/true);
      closure->spec.place->places_end = places_end;
      queue.Add(std::move(closure));
      dispatcher.OnScheduled(id);
      dispatcher.Advance();
    }
  }
  std::vector<uint64_t> Ids(int worker) {
    const std::deque<uint64_t>& ids = InFlight(worker);
    return {ids.begin(), ids.end()};
  }
  const Closure& Of(uint64_t id) { return *closures.queue().Find(id); }
};
using List = std::vector<uint64_t>;

TEST_CASE("each replica of a ring gets a range of the step, and its length") {
  InRing d;
  d.QueueMany(1, 8);
  CHECK(d.Ids(0) == List{1, 2, 3});
  CHECK(d.Ids(1) == List{4, 5});
  CHECK(d.Of(1).ring_places == 3);
  CHECK(d.Of(5).ring_places == 2);
  CHECK(d.sent(1).back().dispatch().closures(0).ring_places() == 2);
}

TEST_CASE("a short step is a ring only if each replica has a part of it") {
  InRing d;
  d.QueueMany(1, 4, /*places_end=*/4);
  CHECK(d.Ids(0) == List{1, 2});
  CHECK(d.Ids(1) == List{3});
  CHECK(d.Of(3).ring_places == 1);
  InRing alone;
  alone.QueueMany(1, 1, /*places_end=*/2);
  CHECK(alone.Of(1).ring_places == 0);
}

TEST_CASE("a closure that a replica gives back repeats the whole step") {
  InRing d;
  d.QueueMany(1, 6);
  const uint64_t step_try = d.Of(1).step.step_try;
  CHECK(!d.Report(0, 1, 1, absl::StatusCode::kOk));
  CHECK(d.Of(1).state == Closure::State::kHeard);
  CHECK(d.Report(1, 4, 1, absl::StatusCode::kAborted));
  CHECK(d.sent(0).back().cancel().ids_size() == 2);
  CHECK(d.sent_to_ps(0).back().abandon_step().step_try() == step_try + 1);
  // Results of the old try are void.
  CHECK(!d.Report(0, 2, 1, absl::StatusCode::kOk));
  d.RefillAll();
  CHECK(d.Ids(0) == List{1, 2, 3});
  CHECK(d.Ids(1) == List{4, 5});
  CHECK(d.Of(2).step.step_try == step_try + 1);
  CHECK(d.Of(2).attempt == 2);
  CHECK(!d.closures.failed());
}

TEST_CASE("a replica whose stream was lost keeps its part of the step") {
  InRing d;
  d.QueueMany(1, 6);
  const uint64_t step_try = d.Of(4).step.step_try;
  d.membership.member(WorkerTask(1)).link = Link::kDown;
  d.dispatcher.OnLost(1);
  d.setup.OnLost(1);
  d.RefillAll();
  CHECK(d.Ids(0) == List{1, 2, 3});
  CHECK(d.Ids(1).empty());
  d.MakeReady(1);
  v1::WorkerHello hello;
  hello.set_timeline(1);
  for (const uint64_t id : {4, 5, 77}) {
    v1::ClosureAttempt* const hand = hello.add_in_hand();
    hand->set_id(id);
    hand->set_attempt(1);
  }
  d.dispatcher.OnReturned(1, &hello);
  CHECK(d.Ids(1) == List{4, 5});
  CHECK(d.Of(4).step.step_try == step_try);
}

TEST_CASE("the mode changes after the last closure of a ring") {
  InRing d;
  d.QueueMany(1, 3);
  REQUIRE(d.steps.SetMode({.mode = ConsistencyMode::kSync, .closures_per_step = 2}).ok());
  d.QueueMany(4, 8);
  CHECK(d.Ids(0) == List{1, 2, 3});
  CHECK(d.Ids(1) == List{4, 5});
}

}  // namespace
}  // namespace cohort
