#include "worker/closures_in_hand.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "proto/worker.pb.h"

namespace cohort {
namespace {

constexpr int kCancelled = 1;
constexpr int kAborted = 10;

v1::Dispatch Closures(const std::vector<uint64_t>& ids, uint32_t attempt = 1, uint64_t timeline = 1,
                      uint64_t watermark = 0) {
  v1::Dispatch dispatch;
  dispatch.set_settled_watermark(watermark);
  for (const uint64_t id : ids) {
    v1::Closure* closure = dispatch.add_closures();
    closure->set_id(id);
    closure->set_attempt(attempt);
    closure->set_timeline(timeline);
    closure->set_training(true);
  }
  return dispatch;
}

struct HandFixture {
  void Dispatch(v1::Dispatch dispatch) { closures.Dispatch(&dispatch, now); }
  // Runs the next one. Its id; 0: none.
  uint64_t RunNext(int code = 0) {
    const v1::Closure* closure = closures.Take();
    if (closure == nullptr) return 0;
    const uint64_t id = closure->id();
    Finish(id, closure->attempt(), code);
    return id;
  }
  void Finish(uint64_t id, uint32_t attempt, int code = 0) {
    v1::ClosureResult result;
    result.set_id(id);
    result.set_attempt(attempt);
    result.mutable_status()->set_code(code);
    closures.Finish(std::move(result), now);
  }
  // (id, attempt, code) of the results that are reported now.
  std::vector<std::tuple<uint64_t, uint32_t, int>> Reported() {
    v1::Results results;
    closures.TakeUnreported(&results);
    std::vector<std::tuple<uint64_t, uint32_t, int>> reported;
    for (const auto& r : results.results()) {
      reported.emplace_back(r.id(), r.attempt(), r.status().code());
    }
    return reported;
  }

  int64_t now = 0;
  ClosuresInHand closures{ClosuresInHand::Options{}};
};
using Reported = std::vector<std::tuple<uint64_t, uint32_t, int>>;

TEST_CASE_METHOD(HandFixture, "closures run in the order of dispatch and are kept until settled") {
  Dispatch(Closures({5, 3, 9}));
  CHECK(closures.queued() == 3);
  CHECK(RunNext() == 5);
  CHECK(closures.Peek()->id() == 3);
  CHECK(RunNext() == 3);
  CHECK(RunNext() == 9);
  CHECK(RunNext() == 0);
  CHECK(Reported() == ::cohort::Reported{{5, 1, 0}, {3, 1, 0}, {9, 1, 0}});
  CHECK(Reported().empty());
  CHECK(closures.kept() == 3);
  closures.Settle(5);
  CHECK(closures.kept() == 2);
  Dispatch(Closures({}, 1, 1, 10));
  CHECK(closures.kept() == 0);
}

TEST_CASE_METHOD(HandFixture, "closures that have not started are given back") {
  Dispatch(Closures({1, 2, 3, 4}));
  CHECK(RunNext() == 1);
  CHECK(Reported() == ::cohort::Reported{{1, 1, 0}});
  CHECK(closures.Take()->id() == 2);
  closures.GiveBack({1, 2, 3, 4, 77}, now);
  CHECK_FALSE(closures.ShouldStop(2));
  CHECK(Reported() == ::cohort::Reported{{3, 1, kCancelled}, {4, 1, kCancelled}});
  Finish(2, 1);
  CHECK(Reported() == ::cohort::Reported{{2, 1, 0}});
  Dispatch(Closures({3, 4}, 2));
  CHECK(RunNext() == 3);
  CHECK(RunNext() == 4);
}

TEST_CASE_METHOD(HandFixture, "results are reported in batches") {
  Dispatch(Closures({1, 2, 3, 4}));
  RunNext();
  CHECK_FALSE(closures.ShouldReport(now));  // one of four
  SECTION("half are finished") {
    RunNext();
    CHECK(closures.ShouldReport(now));
  }
  SECTION("the first has waited long enough") {
    const int64_t max_age = ClosuresInHand::Options{}.max_result_age_us;
    CHECK_FALSE(closures.ShouldReport(now + max_age - 1));
    CHECK(closures.ShouldReport(now + max_age));
  }
}

TEST_CASE_METHOD(HandFixture, "a closure dispatched twice runs once") {
  Dispatch(Closures({7, 7}));
  Dispatch(Closures({7}));
  const v1::Closure* running = closures.Take();
  REQUIRE(running != nullptr);
  Dispatch(Closures({7}));
  Finish(7, 1);
  CHECK(closures.Take() == nullptr);
  CHECK(Reported().size() == 1);
  Dispatch(Closures({7}));  // the chief asks again: the same result
  CHECK(closures.Take() == nullptr);
  CHECK(Reported() == ::cohort::Reported{{7, 1, 0}});
  Dispatch(Closures({7}, 3));  // and under the attempt that it asks for
  CHECK(closures.Take() == nullptr);
  CHECK(Reported() == ::cohort::Reported{{7, 3, 0}});
  Dispatch(Closures({7}, 2));
  CHECK(Reported().empty());
}

TEST_CASE_METHOD(HandFixture, "a newer attempt") {
  SECTION("replaces one that waits") {
    Dispatch(Closures({7}));
    Dispatch(Closures({7}, 2));
    CHECK(closures.queued() == 1);
    CHECK(closures.Take()->attempt() == 2);
  }
  SECTION("takes the success of one that runs") {
    Dispatch(Closures({7}));
    closures.Take();
    Dispatch(Closures({7}, 2));
    Finish(7, 1);
    CHECK(closures.Take() == nullptr);
    CHECK(Reported() == ::cohort::Reported{{7, 2, 0}});
  }
  SECTION("runs after one that fails") {
    Dispatch(Closures({7}));
    closures.Take();
    Dispatch(Closures({7}, 2));
    Finish(7, 1, kAborted);
    CHECK(Reported().empty());
    CHECK(closures.Take()->attempt() == 2);
  }
  SECTION("runs after one that failed") {
    Dispatch(Closures({7}));
    RunNext(kAborted);
    Dispatch(Closures({7}, 2));
    CHECK(Reported().empty());
    CHECK(closures.Take()->attempt() == 2);
  }
}

v1::Dispatch OfStep(uint64_t id, uint32_t attempt, uint64_t step_try) {
  v1::Dispatch dispatch = Closures({id}, attempt);
  v1::StepMembership* const step = dispatch.mutable_closures(0)->mutable_step();
  step->set_step(7);
  step->set_step_try(step_try);
  return dispatch;
}

TEST_CASE_METHOD(HandFixture, "a success counts for later attempts of the same try of a step") {
  Dispatch(OfStep(1, 1, 4));
  REQUIRE(closures.Take() != nullptr);
  SECTION("it has ended") {
    Finish(1, 1);
    CHECK(Reported() == ::cohort::Reported{{1, 1, 0}});
    Dispatch(OfStep(1, 2, 4));
    CHECK(Reported() == ::cohort::Reported{{1, 2, 0}});
    Dispatch(OfStep(1, 3, 5));
  }
  SECTION("it runs") {
    Dispatch(OfStep(1, 3, 5));
    Finish(1, 1);
  }
  CHECK(Reported().empty());
  CHECK(RunNext() == 1);
  CHECK(Reported() == ::cohort::Reported{{1, 3, 0}});
}

TEST_CASE_METHOD(HandFixture, "a closure whose push was dropped runs again") {
  Dispatch(OfStep(1, 1, 4));
  REQUIRE(closures.Take() != nullptr);
  v1::ClosureResult dropped;
  dropped.set_id(1);
  dropped.set_attempt(1);
  dropped.set_dropped(true);
  closures.Finish(std::move(dropped), now);
  CHECK(Reported() == ::cohort::Reported{{1, 1, 0}});
  Dispatch(OfStep(1, 2, 4));
  CHECK(RunNext() == 1);
}

TEST_CASE_METHOD(HandFixture, "cancelling") {
  Dispatch(Closures({1, 2, 3}));
  closures.Take();
  CHECK(closures.Cancel({1, 3, 77}, now));
  CHECK(closures.ShouldStop(1));
  CHECK_FALSE(closures.ShouldStop(2));
  CHECK(Reported() == ::cohort::Reported{{3, 1, kCancelled}});
  Finish(1, 1, kCancelled);
  CHECK(RunNext() == 2);
  CHECK(Reported() == ::cohort::Reported{{1, 1, kCancelled}, {2, 1, 0}});
}

TEST_CASE_METHOD(HandFixture, "a rollback forgets older timelines") {
  Dispatch(Closures({1, 2, 3}));
  RunNext();
  closures.Take();
  CHECK(closures.DropOlder(2));
  CHECK(closures.ShouldStop(2));
  CHECK(closures.queued() == 0);
  CHECK(Reported().empty());
  Dispatch(Closures({3}, 2, 1));  // was on its way
  CHECK(closures.queued() == 0);
  SECTION("a pending closure comes back under its id") {
    Dispatch(Closures({1, 2}, 2, 2));
    Finish(2, 1);  // the old one ends: void
    CHECK(RunNext() == 1);
    CHECK(RunNext() == 2);
    CHECK(Reported() == ::cohort::Reported{{1, 2, 0}, {2, 2, 0}});
  }
  SECTION("which may lie below the watermark of before") {
    Dispatch(Closures({}, 1, 1, 100));
    Dispatch(Closures({50}, 1, 3, 40));  // the dispatch itself says that the job was rolled back
    CHECK(closures.watermark() == 40);
    CHECK(closures.Take()->id() == 50);
  }
  SECTION("and leaves closures that train nothing") {
    v1::Dispatch evaluation = Closures({8}, 1, 0);
    evaluation.mutable_closures(0)->set_training(false);
    Dispatch(evaluation);
    closures.DropOlder(3);
    CHECK(closures.queued() == 1);
    CHECK(closures.Peek()->id() == 8);
  }
}

TEST_CASE_METHOD(HandFixture, "a new chief hears of everything") {
  Dispatch(Closures({1, 2, 3}));
  RunNext();
  Reported();
  RunNext();
  closures.Take();
  Dispatch(Closures({4}));
  v1::WorkerHello hello;
  closures.FillHello(&hello);
  REQUIRE(hello.results_size() == 2);
  CHECK(hello.results(0).id() == 1);
  REQUIRE(hello.in_hand_size() == 2);
  CHECK(hello.in_hand(0).id() == 3);
  CHECK(hello.in_hand(1).id() == 4);
  CHECK(hello.timeline() == 1);
  CHECK(Reported().empty());  // the hello reported them
}

TEST_CASE_METHOD(HandFixture, "what is queued can be given back, and a new job starts empty") {
  Dispatch(Closures({1, 2, 3}));
  closures.Take();
  closures.GiveBackQueued([](v1::ClosureResult* r) { r->mutable_status()->set_code(kAborted); },
                          now);
  CHECK(Reported() == ::cohort::Reported{{2, 1, kAborted}, {3, 1, kAborted}});
  closures.Clear();
  CHECK(closures.ShouldStop(1));
  Finish(1, 1);
  CHECK(closures.kept() == 0);
  CHECK(closures.running() == 0);
}

TEST_CASE("random orders of dispatch, loss, cancel and settle lose no closure") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    ClosuresInHand closures{ClosuresInHand::Options{}};
    std::map<uint64_t, uint32_t> waiting;  // what the chief waits for: id -> attempt
    std::set<uint64_t> successes;
    uint64_t next = 1;
    const v1::Closure* running = nullptr;
    const auto hear = [&](const v1::ClosureResult& result) {
      const auto it = waiting.find(result.id());
      if (it == waiting.end() || result.attempt() < it->second) return;
      if (result.status().code() == 0) {
        waiting.erase(it);
        successes.insert(result.id());
      } else {
        v1::Dispatch again = Closures({result.id()}, ++it->second);
        closures.Dispatch(&again, 0);
      }
    };
    for (int i = 0; i < 400 || !waiting.empty(); ++i) {
      REQUIRE(i < 5000);
      switch (random() % 6) {
        case 0:
          if (i < 400) {
            waiting[next] = 1;
            v1::Dispatch dispatch = Closures({next++});
            closures.Dispatch(&dispatch, 0);
          }
          break;
        case 1:
          if (running == nullptr) running = closures.Take();
          break;
        case 2:
          if (running != nullptr) {
            v1::ClosureResult result;
            result.set_id(running->id());
            result.set_attempt(running->attempt());
            if (random() % 3 == 0) result.mutable_status()->set_code(kAborted);
            running = nullptr;
            closures.Finish(result, 0);
          }
          break;
        case 3: {
          v1::Results results;
          closures.TakeUnreported(&results);
          if (random() % 4 == 0) break;  // lost with the stream
          for (const auto& result : results.results()) hear(result);
          break;
        }
        case 4: {  // the stream is back: the chief hears everything, and dispatches what is missing
          v1::WorkerHello hello;
          closures.FillHello(&hello);
          std::set<uint64_t> held;
          for (const auto& closure : hello.in_hand()) held.insert(closure.id());
          for (const auto& result : hello.results()) hear(result);
          for (auto& [id, attempt] : waiting) {
            if (held.count(id) != 0) continue;
            v1::Dispatch again = Closures({id}, ++attempt);
            closures.Dispatch(&again, 0);
          }
          break;
        }
        case 5: {
          uint64_t watermark = 1;
          while (successes.count(watermark) != 0) ++watermark;
          closures.Settle(watermark);
          break;
        }
      }
    }
    CHECK(successes.size() == next - 1);
    closures.Settle(next);
    CHECK(closures.kept() == 0);
  }
}

}  // namespace
}  // namespace cohort
