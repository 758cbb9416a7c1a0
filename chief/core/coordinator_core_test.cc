#include "chief/core/coordinator_core.h"

#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using Phase = CoordinatorCore::Phase;

uint64_t TimesApplied(const TestWorld& world) {
  uint64_t times = 0;
  for (const FakePs& ps : world.ps) {
    for (const auto& [place, n] : ps.places) times += static_cast<uint64_t>(n);
  }
  return times;
}

TEST_CASE("a closure runs once on every tablet and is folded once") {
  TestWorld world(2, 2);
  world.StartServing();
  REQUIRE(world.core().view().phase() == Phase::kReady);
  REQUIRE(world.core().view().served());
  CHECK(world.core().view().timeline() == 1);
  for (uint64_t i = 0; i < 10; ++i) REQUIRE(world.ScheduleJob(i, 1, 10).ok());
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(TimesApplied(world) == 20);
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 10);
  CHECK(world.done.size() == 10);
  CHECK(world.core().view().settlement.watermark() == 11);
}

TEST_CASE("nothing is dispatched before its ids are durable") {
  TestWorld world(1, 1);
  world.StartServing();
  world.journal_stuck = true;
  REQUIRE(world.ScheduleJob(0, 1, 10).ok());
  world.Quiesce();
  CHECK(world.workers[0].seen.empty());
  world.journal_stuck = false;
  world.Quiesce();
  CHECK(world.workers[0].seen.size() == 1);
}

TEST_CASE("the watermark is published only after its record is durable") {
  TestWorld world(1, 1);
  world.StartServing();
  REQUIRE(world.ScheduleJob(0, 1, 1).ok());
  world.Quiesce();
  world.journal_stuck = true;
  world.Advance(60'000);
  world.Quiesce();
  CHECK(world.core().view().settlement.watermark() == 2);
  CHECK(world.ps[0].watermark == 1);
  CHECK(world.workers[0].kept.size() == 1);
  world.journal_stuck = false;
  world.Quiesce();
  CHECK(world.ps[0].watermark == 2);
  CHECK(world.workers[0].kept.empty());  // an empty dispatch carries the watermark
}

TEST_CASE("a dead worker's closures go to others, under the same ids and higher attempts") {
  TestWorld world(2, 2);
  world.StartServing();
  world.hold_work = true;
  for (uint64_t i = 0; i < 8; ++i) REQUIRE(world.ScheduleJob(i, 1, 8).ok());
  world.Advance(10'000);
  world.Quiesce();
  REQUIRE(world.workers[0].hand.size() == 4);
  world.hold_work = false;
  world.Work(0);  // a push that reached one of two servers
  world.hold_work = true;
  const uint64_t id = world.workers[0].hand.front().id();
  world.KillWorker(0);
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(TimesApplied(world) == 16);
  bool again = false;
  for (const v1::Closure& c : world.workers[1].seen) again |= c.id() == id && c.attempt() == 2;
  CHECK(again);
  SECTION("and when it comes back it gets programs and routes again") {
    world.Connect(WorkerTask(0));
    world.Quiesce();
    CHECK(world.workers[0].programs.contains("program"));
    CHECK(world.workers[0].timeline == 1);
  }
}

TEST_CASE("a worker whose stream breaks keeps the closures that it has in hand") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleJob(0, 1, 2).ok());
  REQUIRE(world.ScheduleJob(1, 1, 2).ok());
  world.Advance(10'000);
  world.Quiesce();
  world.Disconnect(WorkerTask(0));
  world.Connect(WorkerTask(0));
  world.Quiesce();
  CHECK(world.workers[0].hand.size() == 2);
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(world.workers[0].seen.size() == 2);  // none was sent twice
}

TEST_CASE("a closure that kills every worker ends with an error that names them") {
  TestWorld world(2, 1);
  world.options.max_attempts = 3;
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleUser().ok());
  for (int i = 0; i < 3; ++i) {
    world.Quiesce();
    const int holder = world.workers[0].hand.empty() ? 1 : 0;
    REQUIRE(world.workers[static_cast<size_t>(holder)].hand.size() == 1);
    world.KillWorker(holder);
    world.Connect(WorkerTask(holder));
  }
  world.Quiesce();
  const absl::Status error = world.core().TakeError();
  CHECK(std::string(error.message()).find("killed every worker") != std::string::npos);
  CHECK(world.core().TakeError().ok());  // raised once
}

TEST_CASE("what is finished after an open closure is bounded") {
  TestWorld world(2, 1);
  world.options.max_ids_ahead = 50;
  world.StartServing();
  world.hold_work = true;
  for (uint64_t i = 0; i < 200; ++i) REQUIRE(world.ScheduleJob(i, 1, 200).ok());
  world.Quiesce();
  const int stuck = world.workers[0].hand.front().id() == 1 ? 0 : 1;
  // The other worker does all that it is given.
  const auto work = [&](int worker) {
    for (int i = 0; i < 500; ++i) {
      world.hold_work = false;
      world.Work(worker);
      world.hold_work = true;
      world.Quiesce();
    }
  };
  work(1 - stuck);
  CHECK(world.core().view().settlement.watermark() == 1);
  uint64_t last = 0;
  for (const v1::Closure& c : world.workers[static_cast<size_t>(1 - stuck)].seen) {
    last = std::max(last, c.id());
  }
  CHECK(last == 50);
  CHECK(world.core().view().settlement.DoneAbove().size() < 50);
  CHECK(world.core().view().closures.queue().queued() == 150);
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(TimesApplied(world) == 200);
}

TEST_CASE("results that are doubled, late or made up change nothing") {
  TestWorld world(1, 1);
  world.StartServing();
  REQUIRE(world.ScheduleJob(0, 1, 2).ok());
  world.Quiesce();
  v1::WorkerToChief again;
  v1::ClosureResult* result = again.mutable_results()->add_results();
  result->set_id(1);
  result->set_attempt(1);
  result->set_steps(1);
  v1::MetricValue* metric = result->add_metrics();
  metric->set_name("n");
  metric->set_total(1);
  metric->set_count(1);
  world.core().OnWorkerMessage(0, again);
  CHECK(world.core().view().settlement.metrics().at("n").Scalar(kTotal) == 1);
  CHECK(world.core().view().counters().late_results == 1);

  SECTION("an attempt that was never given out") {
    world.hold_work = true;
    REQUIRE(world.ScheduleJob(1, 1, 2).ok());
    world.Quiesce();
    result->set_id(2);
    result->set_attempt(9);
    world.core().OnWorkerMessage(0, again);
    CHECK(!world.core().view().idle());
    result->set_attempt(0);
    world.core().OnWorkerMessage(0, again);
    CHECK(!world.core().view().idle());
  }
  SECTION("a failure of an attempt that is over") {
    world.hold_work = true;
    REQUIRE(world.ScheduleJob(1, 1, 2).ok());
    world.Quiesce();
    world.KillWorker(0);
    world.Connect(WorkerTask(0));
    world.Quiesce();
    result->set_id(2);
    result->set_attempt(1);
    result->mutable_status()->set_code(static_cast<int>(absl::StatusCode::kInvalidArgument));
    world.core().OnWorkerMessage(0, again);
    CHECK(world.core().TakeError().ok());
    CHECK(!world.core().view().idle());
  }
}

TEST_CASE("a second chief is refused by name; one whose forerunner was killed is not") {
  TestWorld world(1, 1);
  world.StartServing();
  world.KillChief();
  SECTION("killed: its sockets closed") {
    world.StartServing();
    CHECK(world.core().view().phase() == Phase::kReady);
    CHECK(world.core().view().outbox.generation() == 2);
  }
  SECTION("alive") {
    world.workers[0].hears_chief = true;
    world.StartChief();
    world.ConnectAll();
    for (int i = 0; i < 40; ++i) {
      world.Quiesce();
      world.Advance(100'000);
    }
    CHECK(world.core().view().phase() == Phase::kFailed);
    const std::string message(world.core().TakeError().message());
    CHECK(message.find("worker:0 (w0:1) is at work for another chief") != std::string::npos);
    CHECK(world.generation == 1);  // it took nothing
  }
  SECTION("lost without a sign, by a worker that waits for it longer than the chief's patience") {
    world.workers[0].hears_chief = world.workers[0].chief_lost = true;
    world.StartChief();
    world.ConnectAll();
    for (int i = 0; i < 100; ++i) {
      world.Quiesce();
      world.Advance(100'000);
    }
    CHECK(world.core().view().phase() != Phase::kFailed);
    CHECK(world.core().view().WaitingFor().find("has lost another chief") != std::string::npos);
    world.workers[0].hears_chief = world.workers[0].chief_lost = false;
    for (int i = 0; i < 20; ++i) {
      world.Quiesce();
      world.Advance(100'000);
    }
    CHECK(world.core().view().phase() == Phase::kReady);
  }
  SECTION("alive, and --takeover") {
    world.workers[0].hears_chief = true;
    world.options.takeover = true;
    world.StartServing();
    CHECK(world.core().view().phase() == Phase::kReady);
  }
}

TEST_CASE("a run that is continued without a worker waits for one that hears another chief") {
  TestWorld world(2, 1);
  world.StartServing();
  world.KillChief();
  world.workers[1].hears_chief = true;
  world.StartChief();
  const auto advance = [&](int64_t seconds) {
    for (int64_t i = 0; i < 10 * seconds; ++i) {
      world.Quiesce();
      world.Advance(100'000);
    }
  };
  SECTION("which it has lost") {
    world.workers[1].chief_lost = true;
    world.ConnectAll();
    advance(9);
    CHECK(world.core().view().phase() == Phase::kProbing);
    CHECK(world.generation == 1);  // it took nothing
    SECTION("until the worker has waited for it") { world.workers[1].hears_chief = false; }
    SECTION("until the worker is gone") { world.KillWorker(1); }
    advance(6);
    CHECK(world.core().view().phase() == Phase::kReady);
    CHECK(world.generation == 2);
  }
  SECTION("and that has come only now") {
    world.Connect(PsTask(0));
    world.Connect(WorkerTask(0));
    advance(4);
    world.Connect(WorkerTask(1));
    advance(4);
    CHECK(world.core().view().phase() == Phase::kFailed);
    CHECK(world.generation == 1);
  }
}

TEST_CASE("a chief that is fenced by a newer one ends, and all that was scheduled with it") {
  TestWorld world(1, 1);
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleUser().ok());
  world.Quiesce();
  v1::WorkerToChief message;
  message.mutable_fenced()->set_current_generation(7);
  world.core().OnWorkerMessage(0, message);
  CHECK(world.core().view().phase() == Phase::kFailed);
  const absl::Status error = world.core().TakeError();
  REQUIRE(GetFailure(error).has_value());
  CHECK(GetFailure(error)->role == "chief");
  CHECK(!IsRetryable(error));
  CHECK(!world.core().TakeError().ok());  // permanently
  CHECK(world.done.size() == 1);
}

TEST_CASE("start waits for every task, and names the missing ones") {
  TestWorld world(2, 1);
  world.StartChief();
  world.Connect(PsTask(0));
  world.Connect(WorkerTask(0));
  world.Quiesce();
  world.Advance(12'000'000);
  world.Quiesce();
  CHECK(world.core().view().phase() == Phase::kProbing);
  CHECK(world.core().view().WaitingFor().find("worker:1 (w1:1), ") != std::string::npos);
  world.Connect(WorkerTask(1));
  world.Quiesce();
  world.Advance(1);
  world.Quiesce();
  CHECK(world.core().view().phase() == Phase::kReady);
}

TEST_CASE("a silent task is lost") {
  TestWorld world(1, 1);
  world.StartServing();
  world.Advance(1'100'000);
  CHECK(!world.workers[0].in.empty());  // a ping
  world.Advance(21'000'000);
  CHECK(world.DeliverOne());
  CHECK(!world.workers[0].connected);
}

// Pings and their answers wait behind it.
TEST_CASE("a task that a long message is moving to is not silent") {
  TestWorld world(1, 1);
  world.StartServing();
  for (int i = 0; i < 4; ++i) {
    world.Advance(15'000'000);
    world.core().OnMoving(WorkerTask(0));
    world.core().OnMoving(PsTask(0));
  }
  for (const std::string& note : world.notes) CHECK(note.find("task_silent") == std::string::npos);
}

TEST_CASE("a worker that alone cannot reach a server is set aside, and tried again") {
  TestWorld world(2, 1);
  world.StartServing();
  world.hold_work = true;
  for (uint64_t i = 0; i < 4; ++i) REQUIRE(world.ScheduleJob(i, 1, 4).ok());
  world.Quiesce();
  v1::WorkerToChief message;
  message.mutable_ps_unreachable()->set_ps(0);
  message.mutable_ps_unreachable()->set_incarnation(1);
  world.core().OnWorkerMessage(0, message);
  CHECK(world.core().view().ready_workers() == 1);
  world.Quiesce();
  CHECK(world.workers[0].hand.empty());
  world.hold_work = false;
  world.Quiesce();
  CHECK(world.core().view().idle());
  CHECK(world.core().view().served());
  world.Advance(3'000'000);
  CHECK(world.core().view().ready_workers() == 2);
}

TEST_CASE("a fenced worker gets no work, also when it returns, until its fence is lifted") {
  TestWorld world(2, 1);
  world.StartServing();
  CoordinatorCore& core = world.core();
  world.hold_work = true;
  for (uint64_t i = 0; i < 4; ++i) REQUIRE(world.ScheduleJob(i, 1, 6).ok());
  world.Quiesce();
  REQUIRE(!world.workers[0].hand.empty());
  REQUIRE(core.FenceWorker(0, /*fenced=*/true, /*again=*/false).ok());
  REQUIRE(core.FenceWorker(0, /*fenced=*/true, /*again=*/false).ok());
  world.Quiesce();
  CHECK(world.workers[0].hand.empty());
  CHECK(world.workers[1].hand.size() == 4);
  CHECK(core.view().State().workers[0].fenced);
  CHECK(absl::IsFailedPrecondition(core.FenceWorker(1, true, /*again=*/false)));
  CHECK(absl::IsInvalidArgument(core.FenceWorker(1, false, /*again=*/false)));
  CHECK(absl::IsInvalidArgument(core.FenceWorker(2, true, /*again=*/false)));
  SECTION("a closure that it has when it returns is not left to it") {
    world.Disconnect(WorkerTask(1));
    world.workers[0].hand.push_back(world.workers[1].hand.front());
    world.Disconnect(WorkerTask(0));
    world.Connect(WorkerTask(0));
    world.Quiesce();
    CHECK(world.workers[0].hand.empty());
    CHECK(core.view().ready_workers() == 0);
    CHECK(core.view().WaitingFor().find("which is fenced") != std::string::npos);
    world.Connect(WorkerTask(1));
  }
  world.hold_work = false;
  world.Quiesce();
  CHECK(core.view().idle());
  const size_t seen = world.workers[0].seen.size();
  REQUIRE(core.FenceWorker(0, /*fenced=*/false, /*again=*/false).ok());
  for (uint64_t i = 4; i < 6; ++i) REQUIRE(world.ScheduleJob(i, 1, 6).ok());
  world.Quiesce();
  CHECK(world.workers[0].seen.size() > seen);
  CHECK(core.view().idle());
}

TEST_CASE("a server that alone has a tablet is not fenced") {
  TestWorld world(1, 2);
  world.StartServing();
  const absl::Status refused =
      world.core().MoveTablets({.what = TabletMove::What::kFence, .ps = 1});
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK(refused.message().find("`drain-ps 1`") != std::string_view::npos);
  CHECK(!world.core().view().homes.drained(1));
}

TEST_CASE("what workers report of their links is compared, and the log names a slow server") {
  TestWorld world(2, 2);
  world.StartServing();
  const auto pass = [&](int seconds, double wait) {
    for (int second = 0; second < seconds; ++second) {
      for (int worker = 0; worker < 2; ++worker) {
        v1::WorkerToChief message;
        for (uint32_t ps = 0; ps < 3; ++ps) {  // there is no third one
          v1::LinkFigures* const link = message.mutable_pong()->mutable_figures()->add_servers();
          link->set_server(ps);
          link->set_requests(500);
          link->set_p50_seconds(ps == 1 ? wait : 0.001);
          link->set_p99_seconds(ps == 1 ? wait : 0.001);
        }
        world.core().OnWorkerMessage(worker, message);
      }
      world.Advance(1'000'000);
      world.Quiesce();
    }
  };
  const auto notes = [&] {
    std::vector<std::string> slow;
    for (const std::string& note : world.notes) {
      if (note.starts_with("slow_")) slow.push_back(note.substr(0, note.find(": ")));
    }
    return slow;
  };
  pass(10, 0.05);
  CHECK(notes() == std::vector<std::string>{"slow_server ps:1"});
  const CoreState state = world.core().view().State();
  CHECK(state.slow_servers == 1);
  CHECK(state.slow.size() == 1);
  REQUIRE(state.links.size() == 4);
  CHECK(state.links[1].slow);
  CHECK(state.links[1].p50_seconds == 0.05);
  pass(10, 0.001);
  CHECK(notes().size() == 2);
  CHECK(world.core().view().State().slow_servers == 0);
}

}  // namespace
}  // namespace cohort
