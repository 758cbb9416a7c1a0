#include "chief/core/joined_tasks.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/core_test_world.h"

namespace cohort {
namespace {

using Dialed = std::vector<std::string>;

// Two workers of TF_CONFIG, and a place for a third.
struct Joining : TestWorld {
  Joining() : TestWorld(3, 1) {
    options.workers[2].clear();
    options.worker_places = 1;
    options.join_grace_us = 2'000'000;
    StartChief();
    Connect(WorkerTask(0));
    Connect(WorkerTask(1));
    Connect(PsTask(0));
    Quiesce();
    Serve();
    Quiesce();
  }
  // The third worker joins, and its stream opens.
  void JoinThird() {
    REQUIRE(core().Join(Role::kWorker, "late:1").value().ToString() == "worker:2");
    Quiesce();
    Connect(WorkerTask(2));
    Quiesce();
  }
};

TEST_CASE("a worker that joins is dialed when the journal has it, and gets work") {
  Joining w;
  CHECK(w.core().view().ready_workers() == 2);
  w.journal_stuck = true;
  REQUIRE(w.core().Join(Role::kWorker, "late:1").value().ToString() == "worker:2");
  w.Quiesce();
  CHECK_FALSE(w.core().view().joined.settled(WorkerTask(2)));
  CHECK(w.dialed.empty());
  w.journal_stuck = false;
  w.Quiesce();
  CHECK(w.core().view().joined.settled(WorkerTask(2)));
  CHECK(w.dialed == Dialed{"worker:2 at late:1"});
  w.Connect(WorkerTask(2));
  w.Quiesce();
  CHECK(w.core().view().ready_workers() == 3);
  w.ScheduleAll(30);
  w.Quiesce();
  CHECK(w.core().view().dispatcher.worker_figures()[2].steps > 0);
  // It asks again, for its answer was lost.
  CHECK(w.core().Join(Role::kWorker, "late:1").value().ToString() == "worker:2");
}

TEST_CASE("who joins has an address of its own, and a place") {
  Joining w;
  const auto named = w.core().Join(Role::kWorker, w.options.workers[0]);
  CHECK(absl::IsAlreadyExists(named.status()));
  w.JoinThird();
  const auto full = w.core().Join(Role::kWorker, "other:1");
  CHECK(absl::IsResourceExhausted(full.status()));
  CHECK(full.status().message() ==
        "all 1 places for a worker that joins are taken; one is free when its worker has been "
        "away for 2 s");
}

TEST_CASE("nobody joins a job that is finished") {
  Joining w;
  w.journal_stuck = true;
  w.core().Stop("the job is finished", /*job_finished=*/true);
  CHECK(absl::IsOutOfRange(w.core().Join(Role::kWorker, "late:1").status()));
  w.journal_stuck = false;
  w.Quiesce();
  CHECK(absl::IsOutOfRange(w.core().Join(Role::kWorker, "late:1").status()));

  Joining stopped;
  stopped.core().Stop("a user stops it", /*job_finished=*/false);
  CHECK(absl::IsUnavailable(stopped.core().Join(Role::kWorker, "late:1").status()));
}

TEST_CASE("the log names a task that is refused once") {
  Joining w;
  w.JoinThird();
  w.notes.clear();
  w.core().OnBadMessages(WorkerTask(2), Unavailable("worker:2 (late:1): cannot open the data"));
  w.Advance(10'000);
  const std::string what = "worker:2 (late:1): cannot open the data";
  CHECK(w.notes ==
        std::vector<std::string>{"task_lost " + what, "task_refused " + what, "task_left " + what});
}

TEST_CASE("the place of a worker that has left is free after a while, for the next one") {
  Joining w;
  w.JoinThird();
  w.Disconnect(WorkerTask(2));
  w.Advance(1'900'000);
  w.Quiesce();
  CHECK(w.dialed.size() == 1);
  w.Advance(200'000);
  w.Quiesce();
  CHECK(w.dialed.back() == "worker:2");
  CHECK(JoinedIn(w.durable).tasks().empty());
  CHECK(w.core().view().membership.Missing(w.now_us).empty());  // nobody waits for it
  CHECK(w.core().Join(Role::kWorker, "other:1").value().ToString() == "worker:2");
  w.Quiesce();
  CHECK(w.dialed.back() == "worker:2 at other:1");
}

TEST_CASE("a chief that is restarted dials the workers that have joined") {
  Joining w;
  w.JoinThird();
  const v1::JoinedTasks joined = JoinedIn(w.durable);
  REQUIRE(joined.tasks_size() == 1);
  CHECK(joined.tasks(0).address() == "late:1");
  CHECK(joined.tasks(0).task().index() == 2);

  CoreOptions options;
  options.workers = {"a:1", "b:1"};
  AddPlaces(joined, /*workers=*/4, /*servers=*/0, &options);
  CHECK(options.workers == std::vector<std::string>{"a:1", "b:1", "late:1", "", "", ""});
  CHECK(options.worker_places == 4);

  options = {};
  options.workers = {"a:1", "b:1"};
  AddPlaces(joined, /*workers=*/0, /*servers=*/0, &options);
  CHECK(options.workers.size() == 3);

  // TF_CONFIG has grown.
  options = {};
  options.workers = {"a:1", "b:1", "c:1"};
  AddPlaces(joined, /*workers=*/0, /*servers=*/0, &options);
  CHECK(options.workers == std::vector<std::string>{"a:1", "b:1", "c:1"});
}

TEST_CASE("servers that a user has drained count again if the one that had joined is gone") {
  CoreParts parts(/*workers=*/1, /*ps=*/2);
  parts.context.options.ps_places = 1;
  for (const int ps : {0, 1}) parts.Adopt(PsTask(ps));
  const v1::Layout layout = CoreParts::OneTabletEach(1);
  parts.homes.Assign(layout, 1);
  REQUIRE(parts.homes.Drain(0, layout).ok());
  CHECK(parts.homes.drained(0));
  CHECK(parts.homes.moving() == 1);
  CHECK(absl::IsInvalidArgument(parts.homes.Drain(1, layout)));
  parts.context.options.ps[1].clear();
  parts.homes.Forget(1);
  CHECK_FALSE(parts.homes.drained(0));
  CHECK(parts.homes.drained(1));
  CHECK(parts.homes.moving() == 0);
  CHECK(parts.homes.Placed(layout).tablets(0).ps() == 0);
  CHECK(parts.homes.figures().size() == 1);
}

TEST_CASE("the place of a server that has left cannot be returned") {
  CoreParts parts(/*workers=*/1, /*ps=*/3);
  parts.context.options.ps_places = 2;
  for (const int ps : {0, 1, 2}) parts.Adopt(PsTask(ps));
  parts.homes.Assign(CoreParts::OneTabletEach(1), 1);
  parts.context.options.ps[1].clear();
  parts.homes.Forget(1);
  const absl::Status returned = parts.homes.Return(1);
  CHECK(absl::IsInvalidArgument(returned));
  CHECK_THAT(std::string(returned.message()), Catch::Contains("there is no ps:1"));
  REQUIRE(parts.homes.Drain(0, CoreParts::OneTabletEach(1)).ok());
  CHECK(parts.homes.Placed(CoreParts::OneTabletEach(1)).tablets(0).ps() == 2);
}

}  // namespace
}  // namespace cohort
