// The step loop with pull_ahead: which step is pulled when, and that nothing is lost or done twice.
#include "worker/pull_ahead.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "worker/step_loop_test_fixture.h"

namespace cohort {
namespace {

using Call = FakeVariables::Call;

struct AheadFixture : DatasetFixture {
  // The results in the order of the ids.
  std::vector<v1::ClosureResult> Sorted() const {
    std::vector<v1::ClosureResult> sorted = effects.results;
    std::ranges::sort(sorted, {}, [](const v1::ClosureResult& r) { return r.id(); });
    return sorted;
  }
  absl::Status StatusOf(uint64_t id) const {
    for (const auto& result : effects.results) {
      if (result.id() == id) return StatusFromProto(result.status());
    }
    return NotFound("closure {} has no result", id);
  }
  void Cancel(uint64_t id) {
    v1::ChiefToWorker message;
    message.set_generation(1);
    message.mutable_cancel()->add_ids(id);
    core.OnMessage(1, &message);
  }
  // Closure i adds i.
  std::vector<v1::Closure> Counting(uint64_t closures, uint32_t steps = 1) {
    std::vector<v1::Closure> made;
    for (uint64_t id = 1; id <= closures; ++id) {
      made.push_back(Closure(id, {static_cast<float>(id)}));
      made.back().set_steps(steps);
    }
    return made;
  }
};

TEST_CASE_METHOD(AheadFixture, "a step sees the pushes of all steps but the last n") {
  const uint32_t ahead = GENERATE(0, 1, 2, 3, 16);
  INFO("pull_ahead " << ahead);
  Adopt(ahead);
  constexpr uint64_t kClosures = 10;
  Dispatch(Counting(kClosures));
  RunAll();
  const auto results = Sorted();
  REQUIRE(results.size() == kClosures);
  for (uint64_t id = 1; id <= kClosures; ++id) {
    const uint64_t seen = id > 1 + ahead ? id - 1 - ahead : 0;  // the last one whose push it sees
    CHECK(Output(results[id - 1]) == static_cast<float>(seen * (seen + 1) / 2));
    CHECK(StatusOf(id).ok());
  }
  CHECK(variables.w == 55);
  CHECK(metrics.pulled_ahead->value() == (ahead == 0 ? 0 : kClosures - 1));
}

TEST_CASE_METHOD(AheadFixture, "a step runs while the exchange with a later pull is under way") {
  Adopt(2);
  std::vector<uint64_t> steps_at_begin;
  variables.on_begin = [&](const Call&) { steps_at_begin.push_back(metrics.steps->value()); };
  std::vector<uint64_t> steps_at_end;
  variables.fail = [&](const Call&) {
    steps_at_end.push_back(metrics.steps->value());
    return absl::OkStatus();
  };
  Dispatch(Counting(5));
  RunAll();
  CHECK(steps_at_begin == std::vector<uint64_t>{0, 0, 0, 1, 2, 3, 4, 5});
  CHECK(steps_at_end == std::vector<uint64_t>{0, 0, 1, 2, 3, 4, 5, 5});
  REQUIRE(variables.calls.size() == 8);
  CHECK_FALSE(variables.calls[2].pushed.has_value());
  CHECK(variables.calls[3].pushed == 100);
  CHECK(variables.calls[3].pulled);  // closure 4's
  CHECK(variables.calls[5].pushed == 300);
  CHECK_FALSE(variables.calls[5].pulled);
}

TEST_CASE_METHOD(AheadFixture, "the next pull is on the wire before a step computes") {
  const uint32_t ahead = GENERATE(0, 1, 2);
  INFO("pull_ahead " << ahead);
  Adopt(ahead);
  std::vector<uint64_t> steps_at_poll;
  variables.on_poll = [&](const Call&) { steps_at_poll.push_back(metrics.steps->value()); };
  constexpr uint64_t kClosures = 5;
  Dispatch(Counting(kClosures));
  RunAll();
  // Each step that runs during an exchange runs after its poll.
  CHECK(steps_at_poll ==
        (ahead == 0 ? std::vector<uint64_t>{} : std::vector<uint64_t>{0, 1, 2, 3, 4}));
  for (const Call& call : variables.calls) CHECK((ahead > 0 || !call.polled));
}

TEST_CASE_METHOD(AheadFixture, "closures of several steps give the same results") {
  std::vector<v1::ClosureResult> expected;
  for (const uint32_t ahead : {0, 1, 2, 5}) {
    INFO("pull_ahead " << ahead);
    effects.results.clear();
    StepLoopFixture::Adopt(ahead);
    std::vector<v1::Closure> closures;
    for (uint64_t id = 1; id <= 12; ++id) {
      closures.push_back(Closure(ahead * 100 + id, {1, static_cast<float>(id)},
                                 /*training=*/id % 4 != 0, /*program=*/id > 8 ? 1 : 0));
      closures.back().set_steps(static_cast<uint32_t>(1 + id % 3));
    }
    const float before = variables.w;
    Dispatch(closures);
    RunAll();
    const auto results = Sorted();
    REQUIRE(results.size() == 12);
    if (ahead == 0) expected = results;
    float total = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].status().code() == 0);
      CHECK(results[i].steps() == expected[i].steps());
      CHECK(results[i].applied() == expected[i].applied());
      CHECK(results[i].metrics(0).total() == expected[i].metrics(0).total());
      if (closures[i].training()) total += static_cast<float>((i + 2) * closures[i].steps());
    }
    CHECK(variables.w - before == total);
  }
}

TEST_CASE_METHOD(AheadFixture, "steps of a synchronous step are not pulled ahead") {
  Adopt(2);
  std::vector<v1::Closure> closures = Counting(4);
  for (v1::Closure& closure : closures) {
    closure.mutable_step()->set_step(closure.id());
  }
  Dispatch(closures);
  RunAll();
  REQUIRE(effects.results.size() == 4);
  CHECK(metrics.pulled_ahead->value() == 0);
  CHECK(Output(Sorted()[3]) == 6);
}

TEST_CASE_METHOD(AheadFixture, "the limit may change from chief to chief") {
  for (const uint32_t ahead : {2, 0, 16, 1}) {
    Adopt(ahead);
    Dispatch(Counting(3));
    std::vector<v1::Closure> closures;
    for (uint64_t i = 0; i < 4; ++i) closures.push_back(Closure(1000 * (ahead + 1) + i, {1}));
    Dispatch(closures);
    RunAll();
  }
  CHECK(variables.w == 6 + 16);
  for (const auto& result : effects.results) CHECK(result.status().code() == 0);
}

TEST_CASE_METHOD(AheadFixture, "the steps before the end of data count") {
  for (const uint32_t ahead : {0, 1, 3}) {
    INFO("pull_ahead " << ahead);
    AheadFixture f;
    f.Adopt(ahead);
    f.Make(/*repeat=*/1);  // three batches
    f.Dispatch({f.Reading(1), f.Reading(2, /*steps=*/4), f.Reading(3)});
    f.RunAll();
    REQUIRE(f.effects.results.size() == 3);
    CHECK(f.StatusOf(1).ok());
    CHECK(absl::IsOutOfRange(f.StatusOf(2)));
    CHECK(f.Sorted()[1].steps() == 2);
    CHECK(f.Sorted()[1].applied() == 6);
    CHECK(f.Sorted()[1].examples() == 6);
    CHECK(absl::IsOutOfRange(f.StatusOf(3)));
  }
}

TEST_CASE_METHOD(AheadFixture, "batches that are bound ahead keep their values") {
  for (const uint32_t ahead : {0, 1, 2, 4}) {
    AheadFixture f;
    f.Adopt(ahead);
    f.Make(/*repeat=*/0);
    std::vector<v1::Closure> closures;
    for (uint64_t id = 1; id <= 12; ++id) closures.push_back(f.Reading(id));
    f.Dispatch(closures);
    f.RunAll();
    // Each epoch of three batches has the same labels in another order.
    float total = 0;
    for (const auto& result : f.effects.results) {
      total += static_cast<float>(result.metrics(0).total());
    }
    CHECK(f.variables.w == total);
    INFO("pull_ahead " << ahead);
    std::vector<double> means;
    for (const auto& result : f.Sorted()) means.push_back(result.metrics(0).total());
    static std::vector<double> expected;
    if (ahead == 0) expected = means;
    CHECK(means == expected);
  }
}

TEST_CASE_METHOD(AheadFixture, "a closure that is cancelled while it is pulled ahead ends alone") {
  Adopt(2);
  // At the third exchange, steps 1 and 2 are pulled, and 3 is being pulled.
  const uint64_t cancelled = GENERATE(1, 2, 3, 4);
  bool done = false;
  variables.on_begin = [&](const Call&) {
    if (std::exchange(done, variables.calls.size() == 2)) return;
    if (done) Cancel(cancelled);
  };
  Dispatch(Counting(6));
  RunAll();
  REQUIRE(effects.results.size() == 6);
  for (uint64_t id = 1; id <= 6; ++id) {
    INFO("closure " << id << ", cancelled: " << cancelled);
    // Closure 1 runs at that moment; nothing interrupts its push.
    if (id == cancelled && id > 1) {
      CHECK(absl::IsCancelled(StatusOf(id)));
    } else {
      CHECK(StatusOf(id).ok());
    }
  }
  CHECK(variables.w == static_cast<float>(21 - (cancelled > 1 ? cancelled : 0)));
}

TEST_CASE_METHOD(AheadFixture, "a rollback gives all steps back that were pulled before it") {
  Adopt(2);
  variables.fail = [&](const Call& call) -> absl::Status {
    if (call.pushed != 200) return absl::OkStatus();
    variables.timeline = 2;
    return Aborted("tablet 0 is on timeline 2");
  };
  Dispatch(Counting(5));
  // The servers fence pushes of an older timeline before they look at them.
  variables.on_begin = [&](const Call&) {
    if (variables.timeline == 1) return;
    variables.fail = [](const Call& call) {
      return call.pushed.has_value() ? Aborted("fenced") : absl::OkStatus();
    };
  };
  RunAll();
  REQUIRE(effects.results.size() == 5);
  CHECK(StatusOf(1).ok());
  for (uint64_t id = 2; id <= 5; ++id) {
    CHECK(absl::IsAborted(StatusOf(id)));
    CHECK(IsRetryable(StatusOf(id)));
  }
  CHECK(variables.w == 1);
}

TEST_CASE_METHOD(AheadFixture, "an unreachable server ends the closures of the exchange") {
  Adopt(1);
  variables.fail = [](const Call& call) -> absl::Status {
    if (call.pushed != 100) return absl::OkStatus();
    absl::Status status = Unavailable("ps:1");
    SetFailure(&status, {.role = "ps", .index = 1, .retryable = true});
    return status;
  };
  Dispatch(Counting(4));
  RunAll();
  REQUIRE(effects.results.size() == 4);
  CHECK(effects.unreachable == 1);
  CHECK(absl::IsUnavailable(StatusOf(1)));
  CHECK(StatusOf(2).ok());  // it was pulled before
  CHECK(absl::IsUnavailable(StatusOf(3)));
  CHECK(StatusOf(4).ok());
  CHECK(variables.w == 6);
}

// Interrupts, fences and cancellations at random: each closure has one result, each success has
// pushed each step once, and nothing else than acknowledged pushes is in the weights.
TEST_CASE("random faults with steps that are pulled ahead") {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto percent = [&](uint32_t p) { return random() % 100 < p; };
    AheadFixture f;
    f.Adopt(random() % 5);
    const uint32_t faults = random() % 30;
    std::map<uint64_t, int> pushed;  // acknowledged pushes, as in Call
    uint64_t most = 1;
    f.variables.fail = [&](const Call& call) -> absl::Status {
      if (percent(faults / 2)) f.Cancel(1 + random() % most);
      if (percent(faults)) return Cancelled("interrupted");
      if (percent(faults / 3)) return Aborted("fenced");
      if (call.pushed.has_value()) ++pushed[*call.pushed];
      return absl::OkStatus();
    };
    std::map<uint64_t, v1::Closure> closures;
    float expected = 0;
    for (int round = 0; round < 3; ++round) {
      std::vector<v1::Closure> made;
      for (uint64_t i = 0; i < 1 + random() % 12; ++i) {
        ++most;
        v1::Closure closure =
            f.Closure(most, {static_cast<float>(most)}, percent(80), percent(20) ? 1 : 0);
        closure.set_steps(1 + random() % 4);
        made.push_back(closure);
        closures[most] = closure;
      }
      f.Dispatch(made);
      f.RunAll();
    }
    std::set<uint64_t> ended;
    for (const auto& result : f.effects.results) {
      const v1::Closure& closure = closures[result.id()];
      // The chief hears of a cancelled closure again; nothing but a repetition may be different.
      if (!ended.insert(result.id()).second) continue;
      if (result.status().code() != 0 || !closure.training()) continue;
      REQUIRE(result.steps() == closure.steps());
      for (uint32_t ordinal = 0; ordinal < closure.steps(); ++ordinal) {
        REQUIRE(pushed[result.id() * 100 + ordinal] == 1);
      }
    }
    REQUIRE(ended.size() == closures.size());
    for (const auto& [update, count] : pushed) {
      REQUIRE(count <= 1);
      expected += static_cast<float>(count) * static_cast<float>(update / 100);
    }
    REQUIRE(f.variables.w == expected);
    REQUIRE(f.core.idle());
  }
}

}  // namespace
}  // namespace cohort
