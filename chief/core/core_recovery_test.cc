// Cuts, rollbacks and restarts of the chief.
#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

bool EachPlaceOnce(const TestWorld& world, uint64_t places) {
  for (const FakePs& ps : world.ps) {
    if (ps.places.size() != places) return false;
    for (const auto& [place, times] : ps.places) {
      if (times != 1 || place >= places) return false;
    }
  }
  return true;
}

TEST_CASE("a cut drains, snapshots, commits, and training continues") {
  TestWorld world(2, 2);
  world.StartServing();
  world.ScheduleAll(20);
  REQUIRE(world.core().StartCut(false).ok());
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  CHECK(world.cuts_done[0].ok());
  const v1::Manifest& manifest = world.checkpoints.at(world.newest).manifest;
  CHECK(manifest.files_size() == 2);
  CHECK(manifest.step() < 20);  // what no worker has begun is not in it
  const FakePs& saved = world.checkpoints.at(world.newest).state.at(0);
  CHECK(saved.places.size() + static_cast<size_t>(manifest.chief().pending_size()) ==
        manifest.step());
  world.Quiesce();
  CHECK(EachPlaceOnce(world, 20));
}

TEST_CASE("a cut waits only for the closures that workers have begun") {
  TestWorld world(2, 2);
  world.StartServing();
  world.hold_work = true;
  world.ScheduleAll(20);
  world.Advance(10'000);
  world.Quiesce();
  const size_t in_flight = world.core().view().closures.queue().in_flight();
  REQUIRE(in_flight > 4);
  REQUIRE(world.core().StartCut(false).ok());
  world.Quiesce();
  CHECK(world.core().view().closures.queue().in_flight() == 2);  // the first one of each worker
  CHECK(world.core().view().counters().requeued == 0);
  CHECK(world.cuts_done.empty());
  world.hold_work = false;
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  const v1::Manifest& manifest = world.checkpoints.at(world.newest).manifest;
  const FakePs& saved = world.checkpoints.at(world.newest).state.at(0);
  CHECK(saved.places.size() == 2);
  // The places between the two that have run are pending. Those after them count as unused.
  CHECK(manifest.step() == saved.places.rbegin()->first + 1);
  CHECK(static_cast<size_t>(manifest.chief().pending_size()) == manifest.step() - 2);
  CHECK(EachPlaceOnce(world, 20));
}

TEST_CASE("a closure that does not end in time enters the cut as pending") {
  TestWorld world(1, 2);
  world.StartServing();
  world.hold_work = true;
  world.ScheduleAll(6);
  world.Advance(10'000);
  world.Quiesce();
  world.hold_work = false;
  world.Work(0);  // place 0 has reached the first server only
  world.hold_work = true;
  REQUIRE(world.core().StartCut(false).ok());
  world.Advance(11'000'000);
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  const v1::Manifest manifest = world.checkpoints.at(world.newest).manifest;
  CHECK(manifest.chief().pending_size() == 4);  // those in flight, under their ids
  CHECK(manifest.chief().pending(0).id() == 1);
  CHECK(manifest.step() == 4);

  // The server dies; the pending ones keep their ids, so that the first server refuses place 0.
  world.KillPs(1);
  world.Advance(1'100'000);
  world.Quiesce();
  CHECK(!world.core().TakeError().ok());
  world.Connect(PsTask(1));
  world.Quiesce();
  world.Serve();
  world.Quiesce();
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.core().view().Unfinished().size() == 4);
  CHECK(world.core().view().Unfinished()[0].id == 1);
  CHECK(world.core().view().scheduler.next_place() == 4);
  world.hold_work = false;
  world.ScheduleAll(6);
  world.Quiesce();
  CHECK(EachPlaceOnce(world, 6));
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 6);
}

TEST_CASE("a failed cut keeps the old checkpoint, and training continues") {
  TestWorld world(1, 2);
  world.StartServing();
  world.ScheduleAll(4);
  world.ps[1].refuse_snapshots = true;
  REQUIRE(world.core().StartCut(false).ok());
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  CHECK(absl::IsResourceExhausted(world.cuts_done[0]));
  CHECK(world.checkpoints.empty());
  CHECK(world.core().view().idle());
  CHECK(EachPlaceOnce(world, 4));
  world.ps[1].refuse_snapshots = false;
  REQUIRE(world.core().StartCut(false).ok());
  world.Quiesce();
  CHECK(world.cuts_done.back().ok());
}

TEST_CASE("a server lost during a cut abandons it") {
  TestWorld world(1, 2);
  world.StartServing();
  REQUIRE(world.core().StartCut(false).ok());
  world.KillPs(0);
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  CHECK(!world.cuts_done[0].ok());
  CHECK(world.checkpoints.empty());
}

TEST_CASE("a server lost when all shards of a cut are durable does not hinder its commit") {
  TestWorld world(1, 2);
  world.StartServing();
  world.manifest_stuck = true;
  const uint64_t cut = *world.core().StartCut(true);
  world.Quiesce();
  REQUIRE(world.core().view().cut.commits(cut));
  world.KillPs(0);
  world.Quiesce();
  world.Advance(1'100'000);  // its grace is over
  CHECK(world.core().view().cut.commits(cut));
  world.manifest_stuck = false;
  world.Quiesce();
  REQUIRE(world.cuts_done.size() == 1);
  CHECK(world.cuts_done[0].ok());
  // The job is finished: the tasks that are there are asked to end.
  world.core().Stop("done", true);
  world.FlushJournal(10);
  CHECK(world.core().view().phase() == CoordinatorCore::Phase::kStopped);
  CHECK(world.ps[1].in.back().shutdown().job_finished());
}

TEST_CASE("work after a cut gets new ids for the same places") {
  TestWorld world(1, 1);
  world.StartServing();
  REQUIRE(world.core().StartCut(false).ok());  // the initial state
  world.Quiesce();
  REQUIRE(world.ScheduleJob(0, 1, 10).value() == 1);
  world.Quiesce();
  CHECK(world.ps[0].places.at(0) == 1);
  world.KillPs(0);
  world.Connect(PsTask(0));
  world.Quiesce();
  CHECK(absl::IsUnavailable(world.core().TakeError()));  // a new process: no need to wait
  world.Serve();
  world.Quiesce();
  CHECK(world.core().view().scheduler.next_place() == 0);
  const uint64_t id = world.ScheduleJob(0, 1, 10).value();
  CHECK(id > 10);  // above all that were reserved
  world.Quiesce();
  CHECK(world.ps[0].places.at(0) == 1);
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 1);
}

TEST_CASE("a rollback that fails half way is repeated with a higher timeline") {
  TestWorld world(1, 2);
  world.StartServing();
  world.KillPs(0);
  world.Connect(PsTask(0));
  world.Quiesce();
  CHECK(!world.core().TakeError().ok());
  world.Serve();
  world.FlushJournal(10);
  world.KillPs(1);  // it dies before it has its tablets
  world.Quiesce();
  CHECK(!world.rollbacks_done.back().ok());
  world.Connect(PsTask(1));
  world.Quiesce();
  world.Serve();
  world.Quiesce();
  CHECK(world.rollbacks_done.back().ok());
  CHECK(world.core().view().timeline() == 3);
  CHECK(world.ps[0].timeline == 3);
  CHECK(world.ps[1].timeline == 3);
  world.ScheduleAll(5);
  world.Quiesce();
  CHECK(EachPlaceOnce(world, 5));
}

TEST_CASE("the counters of lost tasks and restarts cover the whole job") {
  TestWorld world(2, 2);
  world.StartServing();
  world.Disconnect(WorkerTask(0));
  world.ConnectAll();
  world.ScheduleAll(4);
  world.Quiesce();
  world.Advance(1'000'000);  // the settle record
  world.Quiesce();
  for (uint64_t restarts = 1; restarts <= 2; ++restarts) {
    world.KillChief();
    world.StartServing();
    CHECK(world.core().view().counters().workers_lost == 1);
    CHECK(world.core().view().counters().chief_restarts == restarts);
  }
}

TEST_CASE("a chief that is killed continues from its journal with nothing lost") {
  TestWorld world(2, 2);
  world.StartServing();
  world.hold_work = true;
  world.ScheduleAll(12);
  world.Advance(10'000);
  world.Quiesce();
  world.hold_work = false;
  for (int i = 0; i < 6; ++i) world.Work(0);  // two closures done, their results not delivered
  world.hold_work = true;
  world.KillChief();
  world.workers[0].out.clear();

  world.StartServing();
  REQUIRE(world.core().view().served());
  CHECK(world.core().view().timeline() == 1);
  CHECK(world.core().view().counters().rollbacks == 0);
  CHECK(world.core().view().scheduler.next_place() == 12);
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 2);  // redelivered
  const size_t seen = world.workers[0].seen.size() + world.workers[1].seen.size();
  world.ScheduleAll(12);
  CHECK(world.core().view().closures.queue().in_flight() ==
        6);  // workers keep what they have in hand
  world.hold_work = false;
  world.Quiesce();
  CHECK(EachPlaceOnce(world, 12));
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 12);
  CHECK(world.workers[0].seen.size() + world.workers[1].seen.size() == seen + 4);
}

TEST_CASE("a closure of an earlier chief that its worker gives back is dispatched again") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  world.ScheduleAll(2);
  world.Quiesce();
  world.KillChief();
  world.StartServing();
  world.ScheduleAll(2);
  CHECK(world.core().view().closures.queue().in_flight() ==
        2);  // under the attempts of the former chief
  int refusals = 2;
  world.outcome = [&](const v1::Closure&) {
    return refusals-- > 0 ? Aborted("given back") : absl::OkStatus();
  };
  world.hold_work = false;
  world.Quiesce();
  world.Advance(5'000'000);
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(EachPlaceOnce(world, 2));
}

TEST_CASE("a result that comes between a restart and its Schedule ends the closure at once") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  world.KillChief();
  world.StartServing();
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().Unfinished().empty());
  CHECK(world.core().view().settlement.steps() == 1);
  REQUIRE(world.ScheduleJob(0, 1, 1).value() == 1);
  CHECK(world.core().view().idle());
  CHECK(world.done.rbegin()->second.ok());
  CHECK(EachPlaceOnce(world, 1));
}

TEST_CASE("a chief and a server that die together: rollback to the newest cut") {
  TestWorld world(1, 2);
  world.StartServing();
  world.ScheduleAll(4);
  world.Quiesce();
  REQUIRE(world.core().StartCut(false).ok());
  world.Quiesce();
  world.KillChief();
  world.KillPs(1);
  world.StartServing();
  REQUIRE(world.core().view().served());
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.core().view().scheduler.next_place() == 4);
  world.ScheduleAll(9);
  world.Quiesce();
  CHECK(EachPlaceOnce(world, 9));
}

TEST_CASE("closures of a user's chief are cancelled by its restart, and block nothing") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  for (int i = 0; i < 3; ++i) REQUIRE(world.ScheduleUser().ok());
  world.Quiesce();
  world.KillChief();
  world.StartServing();
  CHECK(world.core().view().Unfinished().empty());
  CHECK(world.workers[0].hand.empty());
  world.hold_work = false;
  REQUIRE(world.ScheduleUser().ok());
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(world.core().view().settlement.watermark() == world.workers[0].seen.back().id() + 1);
}

TEST_CASE("an epoch's figures are journaled, and the next begins with none") {
  TestWorld world(1, 1);
  world.StartServing();
  world.ScheduleAll(3);
  world.Quiesce();
  REQUIRE(world.core().EndEpoch(nullptr).ok());
  CHECK(world.core().view().settlement.metrics().empty());
  world.Quiesce();
  world.KillChief();
  world.StartServing();
  CHECK(world.core().view().settlement.epoch() == 1);
  CHECK(world.core().view().settlement.metrics().empty());
  CHECK(world.core().view().settlement.steps() == 3);
}

TEST_CASE("after the record of a failed rollback, nothing from before it is journaled") {
  TestWorld world(1, 1);
  world.options.settle_interval_us = 1'000'000'000;
  world.StartServing();
  world.ScheduleAll(2);
  world.Quiesce();
  world.journal_stuck = true;
  REQUIRE(world.core().RollBack(nullptr, "").ok());
  world.Disconnect(PsTask(0));  // while its record is being written
  REQUIRE(world.rollbacks_done.size() == 2);
  CHECK(!world.rollbacks_done[1].ok());
  CHECK(absl::IsFailedPrecondition(world.core().EndEpoch(nullptr)));
  SECTION("the record is still under way") {
    world.core().Stop("enough", false);
    CHECK(world.core().view().phase() == CoordinatorCore::Phase::kReady);
    world.journal_stuck = false;
    world.Quiesce();
  }
  SECTION("it is durable") {
    world.journal_stuck = false;
    world.Quiesce();
    world.core().Stop("enough", false);
  }
  CHECK(world.core().view().phase() == CoordinatorCore::Phase::kStopped);
  CHECK(world.durable.back().has_rollback());
  const auto state = Recover(world.durable, [](const std::string&) { return NotFound("none"); });
  REQUIRE(state.ok());
  CHECK(state->steps == 0);
  CHECK(state->metrics.empty());
}

TEST_CASE("the end is journaled before any task is asked to end") {
  TestWorld world(1, 1);
  world.StartServing();
  world.journal_stuck = true;
  world.core().Stop("done", true);
  CHECK(world.workers[0].in.empty());
  world.journal_stuck = false;
  world.FlushJournal(10);
  CHECK(world.core().view().phase() == CoordinatorCore::Phase::kStopped);
  REQUIRE(!world.workers[0].in.empty());
  CHECK(world.workers[0].in.back().shutdown().job_finished());
  CHECK(world.ps[0].in.back().shutdown().job_finished());
  const auto state = Recover(world.durable, [](const std::string&) { return NotFound("none"); });
  REQUIRE(state.ok());
  CHECK(state->finished);
}

}  // namespace
}  // namespace cohort
