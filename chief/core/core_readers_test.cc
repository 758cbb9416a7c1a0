// How far workers have read independent datasets: what the chief keeps of it, and what it tells a
// worker that makes such a dataset again.
#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr uint64_t kEnd = 1000;

// Schedules `n` steps one after the other, so that the workers take them in turn.
void Train(TestWorld* world, uint64_t n) {
  for (const UnfinishedClosure& c : world->core().view().Unfinished()) {
    REQUIRE(world->ScheduleJob(c.place, c.steps, kEnd).ok());
    world->Quiesce();
  }
  for (uint64_t i = 0; i < n; ++i) {
    REQUIRE(world->ScheduleJob(world->core().view().scheduler.next_place(), 1, kEnd).ok());
    world->Quiesce();
  }
  world->Advance(100'000);
  world->Quiesce();
}

uint64_t KnownOf(TestWorld* world, int worker) {
  return world->core().view().settlement.readers().Of("data", static_cast<uint32_t>(worker));
}

uint64_t Sum(TestWorld* world) {
  uint64_t sum = 0;
  for (size_t i = 0; i < world->workers.size(); ++i) sum += KnownOf(world, static_cast<int>(i));
  return sum;
}

void Serve(TestWorld* world) {
  world->StartServing();
  world->ReadData();
  world->Quiesce();
}

void Checkpoint(TestWorld* world) {
  REQUIRE(world->core().StartCut(false).ok());
  world->Quiesce();
  REQUIRE(world->cuts_done.back().ok());
}

// A server is lost: back to the newest cut.
void RollBack(TestWorld* world) {
  world->KillPs(0);
  world->Advance(1'100'000);
  world->Quiesce();
  REQUIRE(!world->core().TakeError().ok());
  world->Connect(PsTask(0));
  world->Quiesce();
  world->Serve();
  world->Quiesce();
  REQUIRE(world->core().view().served());
}

TEST_CASE("a worker that is a new process reads on from the last known position") {
  TestWorld world(2, 1);
  Serve(&world);
  CHECK(world.workers[0].readers.at("data").timeline() == 1);
  Train(&world, 10);
  CHECK(Sum(&world) == 10);
  const uint64_t before = KnownOf(&world, 0);
  REQUIRE(before > 0);
  world.KillWorker(0);
  CHECK(world.ReaderOf(0) == 0);
  world.Connect(WorkerTask(0));
  world.Quiesce();
  CHECK(world.ReaderOf(0) == before);
  Train(&world, 10);
  CHECK(Sum(&world) == 20);
}

TEST_CASE("what a closure that did not end has read does not count") {
  TestWorld world(1, 1);
  Serve(&world);
  Train(&world, 3);
  world.hold_work = true;
  Train(&world, 4);
  world.KillWorker(0);
  world.Connect(WorkerTask(0));
  world.Quiesce();
  CHECK(world.ReaderOf(0) == 3);
  world.hold_work = false;
  world.Quiesce();
  CHECK(KnownOf(&world, 0) == 7);
}

TEST_CASE("a reader's position is the furthest that was reported at this timeline") {
  TestWorld world(1, 1);
  Serve(&world);
  Train(&world, 5);
  v1::WorkerToChief message;
  v1::ReaderPosition* reader = message.mutable_results()->add_readers();
  reader->set_resource("data");
  reader->set_timeline(1);
  reader->set_batches(3);  // an older message
  world.core().OnWorkerMessage(0, message);
  CHECK(KnownOf(&world, 0) == 5);
  reader->set_batches(9);
  reader->set_timeline(0);
  world.core().OnWorkerMessage(0, message);
  CHECK(KnownOf(&world, 0) == 5);
  reader->set_timeline(1);
  world.core().OnWorkerMessage(0, message);
  CHECK(KnownOf(&world, 0) == 9);
}

TEST_CASE("readers go back with the cut") {
  TestWorld world(2, 1);
  Serve(&world);
  Train(&world, 6);
  Checkpoint(&world);
  const uint64_t at_cut[] = {KnownOf(&world, 0), KnownOf(&world, 1)};
  const v1::ChiefCut& cut = world.checkpoints.at(world.newest).manifest.chief();
  REQUIRE(cut.readers_size() == 1);
  CHECK(cut.readers(0).resource() == "data");
  CHECK(cut.readers(0).workers_size() == 2);
  Train(&world, 6);
  CHECK(Sum(&world) == 12);
  // One is not there during the rollback, and comes back as it was.
  world.Disconnect(WorkerTask(1));
  RollBack(&world);
  CHECK(world.core().view().timeline() == 2);
  CHECK(KnownOf(&world, 0) == at_cut[0]);
  CHECK(world.ReaderOf(0) == at_cut[0]);
  CHECK(world.workers[0].readers.at("data").timeline() == 2);
  world.Connect(WorkerTask(1));
  world.Quiesce();
  CHECK(world.ReaderOf(1) == at_cut[1]);
  CHECK(world.workers[1].readers.at("data").timeline() == 2);
  Train(&world, 4);
  CHECK(Sum(&world) == 10);
}

TEST_CASE("a rollback to the beginning begins the readers again") {
  TestWorld world(1, 1);
  Serve(&world);
  Train(&world, 6);
  RollBack(&world);
  CHECK(world.ReaderOf(0) == 0);
  CHECK(KnownOf(&world, 0) == 0);
}

TEST_CASE("a closure that a cut holds as pending has read nothing in it") {
  TestWorld world(1, 1);
  Serve(&world);
  Train(&world, 3);
  world.hold_work = true;
  Train(&world, 2);
  REQUIRE(world.core().StartCut(false).ok());
  world.Advance(11'000'000);
  world.hold_work = false;
  world.Quiesce();
  const v1::ChiefCut& cut = world.checkpoints.at(world.newest).manifest.chief();
  CHECK(cut.pending_size() == 2);
  REQUIRE(cut.readers_size() == 1);
  CHECK(cut.readers(0).batches(0) == 3);
  CHECK(KnownOf(&world, 0) == 5);
}

TEST_CASE("a chief that is started again knows from its journal how far a dead worker was") {
  TestWorld world(2, 1);
  Serve(&world);
  Train(&world, 10);
  const uint64_t known[] = {KnownOf(&world, 0), KnownOf(&world, 1)};
  REQUIRE(known[0] > 0);
  world.KillChief();
  world.KillWorker(0);
  Serve(&world);
  CHECK(world.core().view().timeline() == 1);
  CHECK(world.ReaderOf(0) == known[0]);
  CHECK(world.ReaderOf(1) == known[1]);  // it was alive all the time
  CHECK(KnownOf(&world, 1) == known[1]);
}

TEST_CASE("a worker that was alive reports more to a new chief than its journal has") {
  TestWorld world(1, 1);
  Serve(&world);
  Train(&world, 4);
  world.journal_stuck = true;
  Train(&world, 4);
  world.KillChief();
  world.journal_stuck = false;
  Serve(&world);
  CHECK(world.ReaderOf(0) == 8);
  CHECK(KnownOf(&world, 0) == 8);
}

TEST_CASE("a run that is continued from its checkpoint reads on, with other workers too") {
  TestWorld world(2, 1);
  Serve(&world);
  Train(&world, 10);
  Checkpoint(&world);
  const uint64_t known[] = {KnownOf(&world, 0), KnownOf(&world, 1)};
  Train(&world, 3);
  world.KillChief();
  const bool with_journal = GENERATE(true, false);
  if (!with_journal) world.durable.clear();
  TestWorld next(3, 1);
  next.durable = world.durable;
  next.checkpoints = world.checkpoints;
  next.newest = world.newest;
  next.generation = world.generation;
  Serve(&next);
  REQUIRE(next.core().view().served());
  CHECK(next.ReaderOf(0) == known[0]);
  CHECK(next.ReaderOf(1) == known[1]);
  CHECK(next.ReaderOf(2) == 0);
  Train(&next, 6);
  CHECK(Sum(&next) == 16);
  // The places of workers that are gone are kept.
  Checkpoint(&next);
  next.KillChief();
  TestWorld last(1, 1);
  last.checkpoints = next.checkpoints;
  last.newest = next.newest;
  last.generation = next.generation;
  Serve(&last);
  CHECK(last.ReaderOf(0) == KnownOf(&last, 0));
  CHECK(Sum(&last) + KnownOf(&last, 1) + KnownOf(&last, 2) == 16);
}

TEST_CASE("a chief that dies after a rollback reads from the cut, and what came after it") {
  TestWorld world(2, 1);
  Serve(&world);
  Train(&world, 6);
  Checkpoint(&world);
  const uint64_t at_cut[] = {KnownOf(&world, 0), KnownOf(&world, 1)};
  Train(&world, 6);
  RollBack(&world);
  world.KillChief();
  world.KillWorker(0);
  world.KillWorker(1);
  Serve(&world);
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.ReaderOf(0) == at_cut[0]);
  CHECK(world.ReaderOf(1) == at_cut[1]);
}

TEST_CASE("if a rollback's manifest is gone, a later one and the records have the positions") {
  std::vector<v1::JournalRecord> records(3);
  for (uint64_t i = 0; i < 3; ++i) records[i].set_number(i + 1);
  records[0].mutable_start()->set_generation(1);
  records[1].mutable_rollback()->set_timeline(2);
  records[1].mutable_rollback()->set_manifest("gone");
  v1::ReaderPositions* news = records[2].mutable_settle()->add_readers();
  news->set_resource("data");
  news->add_workers(1);
  news->add_batches(9);
  v1::Manifest newest;
  newest.set_timeline(2);
  v1::ReaderPositions* readers = newest.mutable_chief()->add_readers();
  readers->set_resource("data");
  for (const uint64_t batches : {4, 7}) {
    readers->add_workers(static_cast<uint32_t>(readers->workers_size()));
    readers->add_batches(batches);
  }
  const ManifestReader read = [&](const std::string& path) -> absl::StatusOr<v1::Manifest> {
    if (path == "newest") return newest;
    return NotFound("{}", path);
  };
  const absl::StatusOr<Recovered> recovered = Recover(records, read, "newest");
  REQUIRE(recovered.ok());
  CHECK(recovered->readers.Of("data", 0) == 4);
  CHECK(recovered->readers.Of("data", 1) == 9);
}

TEST_CASE("reader positions survive records and manifests that make no sense") {
  ReaderPositions readers;
  ReaderPositions::Protos protos;
  v1::ReaderPositions* resource = protos.Add();
  resource->set_resource("data");
  resource->add_workers(7);
  resource->add_workers(4'000'000'000);
  resource->add_batches(5);  // one is missing
  readers.Add(protos);
  CHECK(readers.Of("data", 7) == 5);
  CHECK(readers.Of("data", 4'000'000'000) == 0);
  ReaderPositions::Protos news;
  readers.TakeNews(&news);
  CHECK(news.empty());
  CHECK(readers.Raise("data", 7, 6));
  CHECK_FALSE(readers.Raise("data", 7, 6));
  readers.TakeNews(&news);
  REQUIRE(news.size() == 1);
  CHECK(news[0].batches(0) == 6);
  news.Clear();
  readers.TakeNews(&news);
  CHECK(news.empty());
}

}  // namespace
}  // namespace cohort
