// Bugs that the simulator found: ways in which a restarted chief, or its workers, could wait
// forever.
#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "chief/core/recovery_test_util.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

// A worker with four closures in hand, and a chief that dies; the next one has adopted the worker
// and nobody else.
void RestartWithWorkInHand(TestWorld* world) {
  world->StartServing();
  world->hold_work = true;
  world->ScheduleAll(4);
  world->Quiesce();
  REQUIRE(world->workers[0].hand.size() == 4);
  world->KillChief();
  world->StartChief();
  world->ConnectAll();
  for (int i = 0; i < 2; ++i) {
    while (world->ToPs(i) || world->FromPs(i)) {
    }
  }
  while (world->ToWorker(0) || world->FromWorker(0)) {
  }
  world->Advance(1);
  REQUIRE(world->DeliverOne());  // a generation is taken: everyone is asked to be adopted
  while (world->ToWorker(0) || world->FromWorker(0)) {
  }
}

void Finish(TestWorld* world) {
  world->hold_work = false;
  for (int i = 0; i < 20 && world->core().view().settlement.steps() < 4; ++i) {
    world->Advance(1'000'000);
    world->ConnectAll();
    world->Quiesce();
  }
  CHECK(world->core().view().settlement.steps() == 4);
  CHECK(world->core().view().idle());
  for (const FakePs& ps : world->ps) {
    CHECK(ps.places.size() == 4);
    for (const auto& [place, times] : ps.places) CHECK(times == 1);
  }
}

TEST_CASE("a result that comes between a worker's hello and the reading of the journal counts") {
  TestWorld world(1, 2);
  RestartWithWorkInHand(&world);
  world.hold_work = false;
  while (world.Work(0)) {
  }
  while (world.FromWorker(0)) {
  }
  world.Quiesce();
  world.Serve();
  world.Quiesce();
  world.ScheduleAll(4);
  Finish(&world);
}

TEST_CASE("a failure under the attempt that a worker kept over a restart gives the closure back") {
  TestWorld world(1, 2);
  RestartWithWorkInHand(&world);
  world.Quiesce();
  world.Serve();
  world.Quiesce();
  world.ScheduleAll(4);
  int failures = 0;
  world.outcome = [&](const v1::Closure& c) {
    return c.id() == 1 && failures++ == 0 ? Aborted("fenced") : absl::OkStatus();
  };
  Finish(&world);
  CHECK(failures > 1);
}

TEST_CASE("an adopted task that refuses this chief's stream is dialled again") {
  TestWorld world(1, 2);
  world.StartServing();
  world.hold_work = true;
  world.ScheduleAll(4);
  world.Quiesce();
  v1::WorkerToChief fenced;
  fenced.mutable_fenced()->set_current_generation(world.core().view().outbox.generation());
  fenced.mutable_fenced()->set_why("the chief is not adopted on this connection");
  world.core().OnWorkerMessage(0, fenced);
  world.Quiesce();
  CHECK(!world.workers[0].connected);
  Finish(&world);
}

TEST_CASE("a worker that is there and never ends a step loses its work to others") {
  TestWorld world(2, 2);
  world.options.closure_timeout_s = 5;
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  const size_t first = world.workers[0].seen.empty() ? 1 : 0;
  world.Advance(4'000'000);
  world.Quiesce();
  CHECK(world.workers[1 - first].seen.empty());
  world.Advance(1'100'000);
  world.Quiesce();
  REQUIRE(world.workers[1 - first].seen.size() == 1);
  CHECK(world.workers[1 - first].seen[0].id() == world.workers[first].seen[0].id());
  CHECK(world.workers[1 - first].seen[0].attempt() > world.workers[first].seen[0].attempt());
}

TEST_CASE("a worker that is alone keeps a step that is longer than the closure timeout") {
  TestWorld world(2, 2);
  world.options.closure_timeout_s = 5;
  world.options.task_timeout_s = 6;
  world.options.silence_us = int64_t{1} << 60;
  world.StartServing();
  world.Disconnect(WorkerTask(1));
  world.hold_work = true;
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  CHECK(world.core().view().WaitingFor().empty());
  for (int i = 0; i < 4; ++i) {
    world.Advance(5'000'000);
    world.Quiesce();
    CHECK(world.core().TakeError().ok());
  }
  CHECK(world.core().view().WaitingFor() ==
        "waiting for worker:0 (w0:1), which has reported no result for 20 s of its 1 closures");
  CHECK(world.workers[0].seen.size() == 1);
  SECTION("and ends it") {
    world.hold_work = false;
    world.Quiesce();
    CHECK(world.core().view().idle());
    CHECK(world.core().view().WaitingFor().empty());
  }
  SECTION("until another is there; if that goes, the error says why the first one is set aside") {
    world.ConnectAll();
    world.Quiesce();
    world.Advance(1);
    world.Quiesce();
    CHECK(world.workers[1].seen.size() == 1);
    world.KillWorker(1);
    world.Advance(1);
    world.Advance(6'000'000);
    const std::string error(world.core().TakeError().message());
    CHECK(testing::Contains(error, "no worker took work for 6 s; waiting for a worker: worker:1"));
    CHECK(testing::Contains(error, "worker:0 (w0:1), which is set aside: no result for 20 s"));
  }
}

TEST_CASE("a worker that is alone ends the job if the user has set the closure timeout") {
  TestWorld world(2, 2);
  world.options.closure_timeout_s = 5;
  world.options.closure_timeout_ends_job = true;
  world.options.silence_us = int64_t{1} << 60;
  world.StartServing();
  world.Disconnect(WorkerTask(1));
  world.hold_work = true;
  for (uint64_t place = 0; place < 2; ++place) REQUIRE(world.ScheduleJob(place, 1, 2).ok());
  world.Quiesce();
  world.Advance(4'900'000);
  world.Quiesce();
  CHECK(world.core().TakeError().ok());
  SECTION("alone") {
    world.Advance(200'000);
    world.Quiesce();
    const absl::Status error = world.core().TakeError();
    CHECK(ExitCodeOf(error) == ExitCode::kUnavailable);
    CHECK(GetFailure(error)->index == 0);
    CHECK(!GetFailure(error)->retryable);
    CHECK(testing::Contains(std::string(error.message()),
                            "worker:0 (w0:1) has reported no result for 5 s of its 2 closures, the "
                            "oldest of which is closure 1, and no other worker can take them: "
                            "closure_timeout_s is 5 s"));
  }
  SECTION("another has come") {
    world.ConnectAll();
    world.Quiesce();
    world.Advance(200'000);
    world.Quiesce();
    CHECK(world.core().TakeError().ok());
    CHECK(!world.workers[1].seen.empty());
  }
}

// Two workers, of which the first has a step that never ends.
void StartWithOneStuck(TestWorld* world) {
  world->options.closure_timeout_s = 5;
  world->options.closure_timeout_ends_job = true;
  world->options.silence_us = int64_t{1} << 60;
  world->options.closures_in_flight = 1;
  world->StartServing();
  world->hold_work = true;
  for (uint64_t place = 0; place < 3; ++place) REQUIRE(world->ScheduleJob(place, 1, 3).ok());
  world->Quiesce();
  REQUIRE(world->workers[0].seen.size() == 1);
  REQUIRE(world->workers[1].seen.size() == 1);
}

TEST_CASE("if the user has set the closure timeout, the job ends when no worker makes progress") {
  TestWorld world(2, 1);
  StartWithOneStuck(&world);
  SECTION("both are late at once") { world.Advance(5'100'000); }
  SECTION("one is, while the other is set aside because it was") {
    world.Advance(4'000'000);
    world.hold_work = false;
    while (world.Work(1)) {
    }
    world.hold_work = true;
    world.Quiesce();
    CHECK(world.workers[1].seen.size() == 2);
    world.Advance(1'100'000);
    world.Quiesce();
    CHECK(testing::Contains(world.notes.back(), "worker:0 (w0:1): no result for 5 s"));
    world.Advance(3'700'000);
    world.Quiesce();
    CHECK(world.core().TakeError().ok());
    CHECK(!world.core().view().error_pending());
    world.Advance(300'000);
  }
  CHECK(world.core().view().error_pending());
  world.Quiesce();
  const absl::Status error = world.core().TakeError();
  CHECK(ExitCodeOf(error) == ExitCode::kUnavailable);
  CHECK(testing::Contains(std::string(error.message()),
                          "no other worker can take them (these make no progress either: worker:"));
}

TEST_CASE("the job does not end while a worker is set aside for another reason") {
  TestWorld world(2, 1);
  StartWithOneStuck(&world);
  world.Advance(4'900'000);
  v1::WorkerToChief message;
  message.mutable_ps_unreachable()->set_ps(0);
  message.mutable_ps_unreachable()->set_incarnation(1);
  world.core().OnWorkerMessage(1, message);
  world.Quiesce();
  world.Advance(200'000);
  world.Quiesce();
  CHECK(!world.core().view().error_pending());
  world.Advance(2'000'000);
  world.Quiesce();
  CHECK(world.core().TakeError().ok());
  CHECK(world.workers[1].seen.size() >= 2);  // it takes work again
}

TEST_CASE("nor if that worker was set aside as late before") {
  TestWorld world(2, 1);
  StartWithOneStuck(&world);
  for (uint64_t place = 3; place < 9; ++place) REQUIRE(world.ScheduleJob(place, 1, 9).ok());
  // The first makes progress; the second does not, and is set aside from 6.9 to 16.9 s.
  const auto pass = [&](int64_t us) {
    world.Advance(us);
    world.Quiesce();
  };
  for (int i = 0; i < 5; ++i) {
    world.Advance(2'900'000);
    world.hold_work = false;
    while (world.Work(0)) {
    }
    world.hold_work = true;
    world.Quiesce();
    if (i == 1) CHECK(testing::Contains(world.notes.back(), "worker:1 (w1:1): no result for 6 s"));
    pass(1'100'000);
  }
  const size_t taken = world.workers[1].seen.size();
  CHECK(taken == 2);
  pass(2'900'000);  // 4 s since the first's last result
  v1::WorkerToChief message;
  message.mutable_ps_unreachable()->set_ps(0);
  message.mutable_ps_unreachable()->set_incarnation(1);
  world.core().OnWorkerMessage(1, message);
  CHECK(testing::Contains(world.notes.back(), "worker:1 (w1:1): cannot reach"));
  pass(1'100'000);
  CHECK(world.core().TakeError().ok());
  pass(1'000'000);
  CHECK(world.core().TakeError().ok());
  CHECK(world.workers[1].seen.size() > taken);
}

TEST_CASE("steps that all take longer than the closure timeout are kept by their workers") {
  TestWorld world(3, 1);
  world.options.closure_timeout_s = 5;
  world.options.closures_in_flight = 1;
  world.options.silence_us = int64_t{1} << 60;
  world.StartServing();
  world.hold_work = true;
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      world.Advance(1'000'000);
      world.Quiesce();
    }
  };
  for (uint64_t place = 0; place < 3; ++place) {  // one begins after the other
    REQUIRE(world.ScheduleJob(place, 1, 9).ok());
    world.Quiesce();
    pass(1);
  }
  for (uint64_t place = 3; place < 9; ++place) REQUIRE(world.ScheduleJob(place, 1, 9).ok());
  for (size_t round = 1; round <= 2; ++round) {
    pass(4);
    for (FakeWorker& worker : world.workers) {
      pass(1);
      CHECK(worker.seen.size() == round);
      const int index = static_cast<int>(&worker - world.workers.data());
      world.hold_work = false;
      while (world.Work(index)) {
      }
      world.hold_work = true;
      world.Quiesce();
    }
  }
  CHECK(world.core().view().counters().requeued == 0);
}

// Closures 1 and 2 (places 0 and 1) are open, and nobody has them in hand.
void LeaveTwoUnfinished(TestWorld* world) {
  world->options.max_ids_ahead = 2;
  world->options.queue_capacity = 4;
  world->StartServing();
  world->hold_work = true;
  for (uint64_t place = 0; place < 2; ++place) REQUIRE(world->ScheduleJob(place, 1, 2).ok());
  world->Quiesce();
  world->KillChief();
  world->KillWorker(0);
  world->StartServing();
  world->hold_work = false;
  REQUIRE(world->core().view().Unfinished().size() == 2);
}

TEST_CASE("what is unfinished goes before new closures, whenever it is scheduled") {
  TestWorld world(1, 1);
  LeaveTwoUnfinished(&world);
  uint64_t place = 2;
  SECTION("after new ones") {
    for (; place < 4; ++place) REQUIRE(world.ScheduleJob(place, 1, 100).ok());
  }
  SECTION("after as many as there is room for") {
    for (; !world.core().view().closures.queue().full(); ++place)
      REQUIRE(world.ScheduleJob(place, 1, 100).ok());
    CHECK(absl::IsResourceExhausted(world.ScheduleJob(place, 1, 100).status()));
  }
  world.Quiesce();
  CHECK(world.workers[0].seen.size() == 2);  // in the previous incarnation
  CHECK(world.core().view().WaitingFor() ==
        "waiting for closure 1 (place 0), which has to be scheduled again");
  for (const UnfinishedClosure& c : world.core().view().Unfinished()) {
    REQUIRE(world.ScheduleJob(c.place, c.steps, 2).ok());
  }
  world.hold_work = true;
  world.Advance(10'000);
  world.Quiesce();
  CHECK(world.core().view().WaitingFor() ==
        "waiting for closure 1 (place 0), which worker:0 (w0:1) has");
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(world.core().view().WaitingFor().empty());
  CHECK(world.core().view().settlement.steps() == place);
}

// All four of a job's closures are done and settled, so that their ids are nothing new to anyone.
void TrainAndSettle(TestWorld* world) {
  world->StartServing();
  world->ScheduleAll(4);
  Finish(world);
  REQUIRE(world->workers[0].watermark + world->workers[0].kept.size() > 4);
}

TEST_CASE("a job that starts afresh with the tasks of its former run goes above their timeline") {
  TestWorld world(1, 2);
  TrainAndSettle(&world);
  const uint32_t attempt = world.workers[0].seen.back().attempt();
  world.KillChief();
  world.EmptyDirectory();
  world.StartServing();
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.core().view().outbox.generation() == 2);
  CHECK(world.core().view().settlement.steps() == 0);
  world.ScheduleAll(4);
  Finish(&world);
  // Ids come again; executions differ in their attempts all the same.
  CHECK(world.workers[0].seen.back().id() <= 4);
  CHECK(world.workers[0].seen.back().attempt() > attempt);

  world.KillChief();  // and its own journal has it, too
  world.StartServing();
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.core().view().outbox.generation() == 3);
  CHECK(world.core().view().settlement.steps() == 4);
}

TEST_CASE("generations and timelines rise over jobs that follow each other on the same tasks") {
  TestWorld world(1, 2);
  TrainAndSettle(&world);
  world.KillChief();
  world.EmptyDirectory();
  world.options.job = "another";
  world.StartServing();
  CHECK(world.core().view().outbox.generation() == 2);
  CHECK(world.core().view().timeline() == 2);
  CHECK(world.ps[0].term > 2);
}

TEST_CASE(
    "a worker that comes late and is ahead of the journal ends a chief, and the next hears it") {
  TestWorld world(2, 1);
  world.StartServing();
  world.Disconnect(WorkerTask(1));
  world.workers[1].timeline = 9;
  world.ConnectAll();
  world.Quiesce();
  REQUIRE(world.core().view().phase() == CoordinatorCore::Phase::kFailed);
  const std::string why(world.core().TakeError().message());
  CHECK(why.find("worker:1 (w1:1) has worked at timeline 9") != std::string::npos);
  world.KillChief();
  world.StartServing();
  CHECK(world.core().view().served());
  CHECK(world.core().view().timeline() == 10);
  world.ScheduleAll(4);
  Finish(&world);
}

v1::JournalRecord Record(uint64_t number) {
  v1::JournalRecord record;
  record.set_number(number);
  return record;
}

TEST_CASE("a checkpoint whose record was not written stands in for the one that it replaced") {
  // Rolled back to cut 3; cut 4 is committed and cut 3 deleted; the chief dies.
  std::vector<v1::JournalRecord> records;
  records.push_back(Record(1));
  records.back().mutable_start()->set_generation(1);
  records.push_back(Record(2));
  records.back().mutable_rollback()->set_timeline(2);
  records.back().mutable_rollback()->set_reserved_end(10);
  records.back().mutable_rollback()->set_manifest("gone");
  records.push_back(Record(3));
  v1::ReserveClosures* reserve = records.back().mutable_reserve();
  reserve->set_first_id(10);
  reserve->set_count(4);
  reserve->set_timeline(2);
  reserve->set_first_place(6);
  reserve->set_steps(1);
  reserve->set_by_job(true);
  reserve->set_max_places(10);

  v1::Manifest newest;
  newest.set_timeline(2);
  newest.set_cut(4);
  newest.mutable_chief()->set_settled_watermark(11);
  newest.mutable_chief()->add_finished(12);
  newest.mutable_chief()->set_next_place(9);
  newest.mutable_chief()->set_journal_record(3);
  v1::PendingClosure* pending = newest.mutable_chief()->add_pending();
  pending->set_id(11);
  pending->set_place(7);
  pending->set_steps(1);
  v1::MetricValue* metric = newest.mutable_chief()->add_metrics();
  metric->set_name("n");
  metric->set_total(8);
  const ManifestReader read = [&](const std::string& path) -> absl::StatusOr<v1::Manifest> {
    if (path == "newest") return newest;
    return NotFound("{}", path);
  };

  CHECK(absl::IsNotFound(Recover(records, read).status()));
  const absl::StatusOr<Recovered> recovered = Recover(records, read, "newest");
  REQUIRE(recovered.ok());
  CHECK(recovered->timeline == 2);
  CHECK(recovered->steps == 8);
  CHECK(recovered->metrics.at("n").Scalar(kTotal) == 8);
  REQUIRE(recovered->unfinished.size() ==
          2);  // the pending one, and the one reserved after the cut
  CHECK(recovered->unfinished[0].id == 11);
  CHECK(recovered->unfinished[1].id == 13);
  CHECK(recovered->watermark == 11);

  newest.set_timeline(1);  // from before the rollback: it is not from this timeline
  CHECK(absl::IsNotFound(Recover(records, read, "newest").status()));
}

}  // namespace
}  // namespace cohort
