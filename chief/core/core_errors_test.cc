// The error semantics of ClusterCoordinator, one rule per case.
#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;

struct Running {
  Running() : world(2, 1) {
    world.StartServing();
    world.hold_work = true;
  }
  // Ten closures in flight or in line, of which the one with this id will fail.
  void ScheduleTen(uint64_t failing) {
    for (int i = 0; i < 10; ++i) REQUIRE(world.ScheduleUser().ok());
    world.Advance(10'000);
    world.outcome = [failing](const v1::Closure& c) -> absl::Status {
      return c.id() == failing ? InvalidArgument("the program divides by zero") : absl::OkStatus();
    };
  }
  // The worker that has closure 1 works until the chief hears of the failure.
  void Fail() {
    world.Quiesce();
    world.hold_work = false;
    while (world.FromWorker(failing()) || world.Work(failing())) {
      if (world.core().view().error_pending()) break;
    }
    world.hold_work = true;
  }
  int failing() const { return world.workers[0].seen.front().id() == 1 ? 0 : 1; }
  TestWorld world;
};

// A worker cannot register a program, which is the job's error.
void RefuseProgram(TestWorld* world) {
  world->core().setup()->AddProgram("refused", v1::Program());
  v1::WorkerToChief answer;
  answer.set_request(world->workers[0].in.back().request());
  world->workers[0].in.pop_back();
  StatusToProto(Internal("no"), answer.mutable_status());
  world->core().OnWorkerMessage(0, std::move(answer));
}

TEST_CASE("the first error drains the line and cancels what is in flight") {
  Running t;
  t.ScheduleTen(1);
  t.world.Quiesce();
  CHECK(t.world.core().view().closures.queue().in_flight() == 8);
  t.Fail();
  CHECK(
      t.world.core().view().error_pending());  // something is still in flight: not to be raised yet
  CHECK(t.world.core().view().closures.queue().queued() == 0);
  CHECK(t.world.core().TakeError().ok());  // nothing is raised while something runs
  t.world.Quiesce();                       // the workers hear of it
  CHECK(t.world.core().view().closures.queue().in_flight() == 0);
  CHECK(!t.world.core().view().error_pending());
  CHECK(t.world.workers[0].hand.empty());
  CHECK(t.world.workers[1].hand.empty());
  int aborted = 0;
  for (const auto& [token, status] : t.world.done) aborted += absl::IsAborted(status) ? 1 : 0;
  CHECK(t.world.done.size() == 10);  // every RemoteValue has an end
  CHECK(aborted == 9);
  CHECK(absl::IsInvalidArgument(t.world.done.at(1)));  // the failed one has its own error
}

TEST_CASE("the error is raised once, by the next call, and then cleared") {
  Running t;
  t.ScheduleTen(1);
  t.Fail();
  t.world.Quiesce();
  SECTION("by Schedule, whose closure is not taken") {
    const auto id = t.world.ScheduleUser();
    CHECK(absl::IsInvalidArgument(id.status()));
    CHECK(t.world.core().view().idle());
  }
  SECTION("by Join or Done") { CHECK(absl::IsInvalidArgument(t.world.core().TakeError())); }
  CHECK(t.world.core().TakeError().ok());
  t.world.hold_work = false;
  t.world.outcome = nullptr;
  REQUIRE(t.world.ScheduleUser().ok());
  t.world.Quiesce();
  CHECK(t.world.core().view().idle());
  CHECK(t.world.done.rbegin()->second.ok());
}

TEST_CASE("of two errors the first is raised") {
  Running t;
  t.ScheduleTen(1);
  t.Fail();
  RefuseProgram(&t.world);
  t.world.Quiesce();
  CHECK(absl::IsInvalidArgument(t.world.core().TakeError()));
  CHECK(t.world.core().TakeError().ok());
}

TEST_CASE("a retryable failure is not an error") {
  Running t;
  t.world.hold_work = false;
  int failures = 0;
  t.world.outcome = [&](const v1::Closure&) -> absl::Status {
    return ++failures == 1 ? Aborted("fenced") : absl::OkStatus();
  };
  REQUIRE(t.world.ScheduleUser().ok());
  t.world.Quiesce();
  CHECK(t.world.core().view().idle());
  CHECK(t.world.core().TakeError().ok());
  CHECK(t.world.core().view().counters().requeued == 1);
}

// The error with which a closure ends that every worker gives back.
absl::Status ErrorOfGivingBack(TestWorld* world) {
  world->hold_work = false;
  world->outcome = [](const v1::Closure&) { return Aborted("fenced"); };
  REQUIRE(world->ScheduleUser().ok());
  for (int i = 0; i < 500 && !world->core().view().idle(); ++i) {
    world->Quiesce();
    world->Advance(1'000'000);
  }
  return world->core().TakeError();
}

TEST_CASE("a closure that is always given back ends with an error") {
  Running t;
  const absl::Status error = ErrorOfGivingBack(&t.world);
  CHECK(absl::IsUnavailable(error));
  CHECK(Contains(std::string(error.message()), "given back 65 times"));
}

// Where time passes and peers say nothing.
constexpr int64_t kNever = int64_t{1} << 60;

// The worker reports that it cannot reach the server.
void CannotReach(TestWorld* world) {
  v1::WorkerToChief message;
  message.mutable_ps_unreachable()->set_ps(0);
  message.mutable_ps_unreachable()->set_incarnation(1);
  world->core().OnWorkerMessage(0, message);
}

// It is set aside for that, and takes its closures again.
void SetAside(TestWorld* world) {
  CannotReach(world);
  world->Advance(3'000'000);
  world->Quiesce();
}

// The worker has closures in hand and makes no progress, however long that takes.
void GiveOut(TestWorld* world, uint64_t closures) {
  world->options.silence_us = kNever;
  world->StartServing();
  world->hold_work = true;
  for (uint64_t place = 0; place < closures; ++place) {
    REQUIRE(world->ScheduleJob(place, 1, closures).ok());
  }
  world->Quiesce();
}

TEST_CASE("a closure is dispatched no more often than there are numbers for its attempts") {
  TestWorld world(1, 1);
  GiveOut(&world, 1);
  for (int i = 1; i < 256; ++i) SetAside(&world);
  CHECK(world.workers[0].seen.size() == 256);
  CHECK(world.workers[0].seen.back().attempt() == 256);
  CHECK(world.core().TakeError().ok());
  SetAside(&world);
  CHECK(world.workers[0].seen.size() == 256);
  CHECK(world.core().view().idle());
  const absl::Status error = world.core().TakeError();
  CHECK(absl::IsUnavailable(error));
  CHECK(Contains(std::string(error.message()), "dispatched 256 times"));
  // Nor after it was raised. The chief's next incarnation has its own numbers.
  CHECK(world.ScheduleJob(0, 1, 1).status() == error);
  REQUIRE(world.core().view().Unfinished().size() == 1);
  world.KillChief();
  world.StartServing();
  world.hold_work = false;
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  CHECK(world.workers[0].seen.back().attempt() == 257);
  CHECK(world.ps[0].places.at(0) == 1);
}

TEST_CASE("of several closures that a worker gives back at their limit the first is the error") {
  TestWorld world(1, 1);
  GiveOut(&world, 3);
  for (int i = 0; i < 256; ++i) SetAside(&world);
  CHECK(world.workers[0].hand.empty());  // it had to drop all three
  CHECK(world.core().view().idle());
  CHECK(Contains(std::string(world.core().TakeError().message()), "closure 1 "));
  CHECK(world.core().view().Unfinished().size() == 3);
}

TEST_CASE("an error of a worker that is set aside waits until it runs nothing any more") {
  TestWorld world(1, 1);
  GiveOut(&world, 3);
  for (int i = 1; i < 256; ++i) SetAside(&world);
  CannotReach(&world);
  CHECK(world.core().view().error_pending());
  CHECK(world.core().view().closures.queue().in_flight() == 3);
  CHECK(world.workers[0].hand.size() == 3);
  CHECK(world.core().TakeError().ok());
  CannotReach(&world);  // it may report this again
  CHECK(world.core().view().closures.queue().in_flight() == 3);
  SECTION("it has given up its closures") { world.Quiesce(); }
  SECTION("one comes through all the same") {
    world.workers[0].in.clear();
    world.hold_work = false;
    world.Quiesce();
    CHECK(world.core().view().settlement.steps() == 3);
  }
  SECTION("it does not, and is lost") {
    world.workers[0].in.clear();
    world.Advance(11'000'000);
    world.Quiesce();
  }
  CHECK(world.core().view().closures.queue().in_flight() == 0);
  CHECK(Contains(std::string(world.core().TakeError().message()), "dispatched 256 times"));
}

// Each of two workers continues a closure of the chief's previous incarnation, which nobody has
// scheduled in this one.
void HoldTwo(TestWorld* world) {
  world->options.silence_us = kNever;
  world->StartServing();
  world->hold_work = true;
  for (uint64_t place = 0; place < 2; ++place) REQUIRE(world->ScheduleJob(place, 1, 2).ok());
  world->Advance(10'000);
  world->Quiesce();
  world->KillChief();
  world->StartServing();
  REQUIRE(world->workers[0].hand.size() == 1);
  REQUIRE(world->workers[1].hand.size() == 1);
  REQUIRE(world->core().view().Unfinished().size() == 2);
  REQUIRE(world->core().view().closures.queue().in_flight() == 0);
}

TEST_CASE("an error waits for what workers hold and nobody has scheduled") {
  TestWorld world(2, 1);
  HoldTwo(&world);
  RefuseProgram(&world);
  CHECK(world.core().view().error_pending());
  CHECK(!world.core().view().idle());
  CHECK(world.core().TakeError().ok());
  SECTION("it is given up") { world.Quiesce(); }
  SECTION("one comes through all the same") {
    world.workers[0].in.clear();
    world.Quiesce();
    CHECK(world.core().view().error_pending());
    world.hold_work = false;
    world.Quiesce();
    CHECK(world.core().view().settlement.steps() == 1);
  }
  SECTION("a worker that does not is dropped at the deadline, and cancelled when it is back") {
    world.workers[0].in.clear();
    world.Quiesce();
    CHECK(world.core().view().error_pending());
    CHECK(world.workers[0].hand.size() == 1);
    world.Advance(11'000'000);
    world.DeliverOne();
    CHECK(!world.workers[0].connected);
    CHECK(!world.core().view().error_pending());
    world.Connect(WorkerTask(0));
    do {
      CHECK(!world.core().view().error_pending());  // it runs it still, and has had its time
    } while (world.DeliverOne());
  }
  CHECK(world.workers[0].hand.empty());
  CHECK(world.workers[1].hand.empty());
  CHECK(absl::IsInternal(world.core().TakeError()));
  CHECK(world.core().view().idle());
}

TEST_CASE("a worker that is set aside gives up what it holds, and others run it") {
  TestWorld world(2, 1);
  HoldTwo(&world);
  CannotReach(&world);
  world.Quiesce();
  CHECK(world.workers[0].hand.empty());
  for (uint64_t place = 0; place < 2; ++place) REQUIRE(world.ScheduleJob(place, 1, 2).ok());
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(world.ps[0].places == std::map<uint64_t, int>{{0, 1}, {1, 1}});
}

TEST_CASE("the last of too many give-backs leaves what else its worker has in flight") {
  TestWorld world(1, 1);
  world.options.max_give_backs = 3;
  world.StartServing();
  world.hold_work = true;
  for (int i = 0; i < 2; ++i) REQUIRE(world.ScheduleUser().ok());
  for (int i = 0; i < 4; ++i) {
    world.Quiesce();
    REQUIRE(world.workers[0].hand.size() == 2);
    const v1::Closure first = world.workers[0].hand.front();
    world.workers[0].hand.pop_front();
    v1::WorkerToChief message;
    v1::ClosureResult* const result = message.mutable_results()->add_results();
    result->set_id(first.id());
    result->set_attempt(first.attempt());
    result->mutable_status()->set_code(static_cast<int>(absl::StatusCode::kAborted));
    world.core().OnWorkerMessage(0, message);
    if (first.id() == 2) --i;  // in turn: that of closure 1 counts
    if (world.core().view().error_pending()) break;
  }
  CHECK(world.core().view().error_pending());
  CHECK(world.core().view().closures.queue().in_flight() == 1);
  world.Quiesce();
  CHECK(Contains(std::string(world.core().TakeError().message()), "was given back 4 times"));
}

TEST_CASE("a worker that is set aside is waited for with the reason") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleUser().ok());
  world.Quiesce();
  CannotReach(&world);
  CHECK(Contains(world.core().view().WaitingFor(),
                 "waiting for a worker: worker:0 (w0:1), which is set aside: cannot reach "
                 "ps:0 (p0:1)"));
}

TEST_CASE("a closure that is given back at its last attempt ends with an error") {
  Running t;
  t.world.options.max_give_backs = 1000;
  t.world.options.silence_us = kNever;
  t.world.KillChief();
  t.world.StartServing();
  CHECK(Contains(std::string(ErrorOfGivingBack(&t.world).message()), "dispatched 256 times"));
}

TEST_CASE("a worker that dies while an error waits counts as stopped") {
  Running t;
  t.ScheduleTen(1);
  t.Fail();
  t.world.KillWorker(0);
  t.world.KillWorker(1);
  CHECK(absl::IsInvalidArgument(t.world.core().TakeError()));
}

TEST_CASE("a worker that does not give up its closures is dropped at the deadline") {
  Running t;
  t.ScheduleTen(1);
  t.Fail();
  t.world.workers[t.failing() == 0 ? 1 : 0].in.clear();  // its cancellation is lost
  t.world.Quiesce();
  CHECK(t.world.core().view().error_pending());
  t.world.Advance(11'000'000);
  t.world.Quiesce();
  CHECK(!t.world.core().view().error_pending());
  CHECK(absl::IsInvalidArgument(t.world.core().TakeError()));
}

TEST_CASE("a lost server is a typed error, and nothing is served until a rollback") {
  Running t;
  REQUIRE(t.world.ScheduleUser().ok());
  t.world.Quiesce();
  t.world.KillPs(0);
  CHECK(t.world.core().TakeError().ok());  // for a moment it may be only the stream
  t.world.Advance(1'100'000);
  t.world.Quiesce();
  const absl::Status error = t.world.core().TakeError();
  CHECK(absl::IsUnavailable(error));
  REQUIRE(GetFailure(error).has_value());
  CHECK(GetFailure(error)->role == "ps");
  CHECK(GetFailure(error)->retryable);
  CHECK(absl::IsFailedPrecondition(t.world.ScheduleUser().status()));
  CHECK(absl::IsUnavailable(t.world.core().RollBack(nullptr, "")));  // it is not back yet
  CHECK(t.world.core().view().WaitingFor().find("ps:0 (p0:1)") != std::string::npos);
}

TEST_CASE("a server whose stream breaks and comes back is not lost") {
  Running t;
  REQUIRE(t.world.ScheduleUser().ok());
  t.world.Quiesce();
  t.world.Disconnect(PsTask(0));
  t.world.Advance(500'000);
  t.world.Connect(PsTask(0));
  t.world.hold_work = false;
  t.world.Quiesce();
  t.world.Advance(2'000'000);
  CHECK(t.world.core().TakeError().ok());
  CHECK(t.world.core().view().idle());
}

TEST_CASE("a server that comes back gets the watermark that it missed") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  world.Disconnect(PsTask(0));
  world.hold_work = false;
  world.Quiesce();
  world.Advance(60'000);
  world.Quiesce();
  REQUIRE(world.core().view().settlement.durable_watermark() == 2);
  CHECK(world.ps[0].watermark == 1);
  world.Connect(PsTask(0));
  world.Quiesce();
  CHECK(world.ps[0].watermark == 2);
}

TEST_CASE("the queue has a limit") {
  TestWorld world(1, 1);
  world.options.queue_capacity = 5;
  world.StartServing();
  world.hold_work = true;
  world.Disconnect(WorkerTask(0));
  for (int i = 0; i < 5; ++i) REQUIRE(world.ScheduleUser().ok());
  CHECK(world.core().view().closures.queue().full());
  CHECK(absl::IsResourceExhausted(world.ScheduleUser().status()));
}

TEST_CASE("work that no worker takes ends with an error that names the workers") {
  TestWorld world(1, 1);
  world.StartServing();
  world.Disconnect(WorkerTask(0));
  REQUIRE(world.ScheduleUser().ok());
  world.Advance(10'000);
  world.Advance(61'000'000);
  const absl::Status error = world.core().TakeError();
  CHECK(Contains(std::string(error.message()), "worker:0 (w0:1)"));
}

TEST_CASE("closures that make no sense are refused") {
  TestWorld world(1, 1);
  world.StartServing();
  CHECK(absl::IsInvalidArgument(world.core().Schedule({.step = {.program = 5}}).status()));
  CHECK(absl::IsInvalidArgument(
      world.core().Schedule({.step = {.program = 0}, .dataset = {.resource = 3}}).status()));
  CHECK(absl::IsInvalidArgument(
      world.core().Schedule({.step = {.program = 0}, .steps = 0}).status()));
}

}  // namespace
}  // namespace cohort
