#include "chief/core/worker_pace.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"

namespace cohort {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

// Two workers that are set up; the deadline is 10 minutes.
struct Pacing : CoreParts {
  Pacing() : CoreParts(2, 1), pace(&context, &closures.queue(), &setup) {
    MakeReady(0);
    MakeReady(1);
    pace.Restart(0);
    pace.Restart(1);
  }
  void Work(int worker, uint64_t id) {
    Queue(id);
    queue.Dispatch(worker, true, 100);
    pace.OnFirstWork(worker);
  }
  void Pass(int64_t seconds) { context.now_us += seconds * kSecondUs; }
  WorkerPace pace;
};

TEST_CASE("a worker that is set aside is available again when its time is over") {
  Pacing p;
  CHECK(p.pace.count_available() == 2);
  CHECK(p.pace.SetAside(0, 2 * kSecondUs, "cannot reach ps:0"));
  CHECK(!p.pace.SetAside(0, 9 * kSecondUs, "again"));
  CHECK(p.pace.count_available() == 1);
  CHECK(p.pace.Waiting(/*none_available=*/true) ==
        "worker:0 (w0:1), which is set aside: cannot reach ps:0");
  p.Pass(2);
  CHECK(p.pace.available(0));
}

TEST_CASE("a worker with work is late after the deadline without a result") {
  Pacing p;
  p.Work(0, 1);
  p.Pass(599);
  CHECK(!p.pace.late(0));
  p.Pass(1);
  CHECK(p.pace.late(0));
  CHECK(!p.pace.late(1));  // it has no work
  CHECK(p.pace.Silence(0) == "no result for 600 s of its 1 closures");
  CHECK(p.pace.silent_us(1) == 0);
  CHECK(p.pace.HasQuicker(0));
  SECTION("it is set aside for twice as long each time") {
    CHECK(p.pace.SetLateAside(0));
    p.Pass(1199);
    CHECK(p.pace.is_set_aside(0));
    p.Pass(1);
    CHECK(!p.pace.is_set_aside(0));
    CHECK(p.pace.SetLateAside(0));
    p.Pass(2399);
    CHECK(p.pace.is_set_aside(0));
  }
  SECTION("another one that has worked for as long is not quicker") {
    p.Work(1, 2);
    CHECK(!p.pace.HasQuicker(0));
    CHECK(!p.pace.OthersWithoutProgress(0).has_value());
    p.Pass(600);
    CHECK(p.pace.OthersWithoutProgress(0) == "worker:1 (w1:1)");
  }
  SECTION("another one that reports in time is quicker") {
    p.Work(1, 2);
    p.Pass(1);
    p.pace.OnResults(1);
    CHECK(p.pace.HasQuicker(0));
  }
}

TEST_CASE("cuts that take back what a worker has not begun do not hide that it is late") {
  Pacing p;
  p.Queue(1);
  const auto work = [&] {
    REQUIRE(p.queue.Dispatch(0, true, 100) != nullptr);
    p.pace.OnFirstWork(0);
  };
  const auto take_back = [&] {
    p.queue.TakeBack(p.queue.Find(1));
    p.pace.OnWorkReturned(0);
  };
  for (int cut = 0; cut < 5; ++cut) {
    work();
    p.Pass(119);
    CHECK(!p.pace.late(0));
    take_back();
    p.Pass(600);  // without work
  }
  work();
  p.Pass(5);
  CHECK(p.pace.late(0));
  SECTION("it is set aside, and the deadline restarts") {
    CHECK(p.pace.SetLateAside(0));
    p.queue.TakeBack(p.queue.Find(1));
    p.Pass(1200);
    work();
  }
  SECTION("a result ends it") { p.pace.OnResults(0); }
  p.Pass(599);
  CHECK(!p.pace.late(0));
  p.Pass(1);
  CHECK(p.pace.late(0));
}

}  // namespace
}  // namespace cohort
