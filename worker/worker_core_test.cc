#include "worker/worker_core.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/clock_test_util.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/protocol_version.h"
#include "common/graph/expr.h"
#include "common/graph/program_proto.h"

namespace cohort {
namespace {

class Recorder : public WorkerEffects {
 public:
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message) override {
    sent.emplace_back(connection, message);
  }
  void RoutesChanged(std::shared_ptr<const v1::Routes>) override { ++routes; }
  void GenerationChanged(uint64_t g) override { generation = g; }
  void WatermarkChanged(uint64_t w) override { watermark = w; }
  void Interrupt() override { ++interrupts; }
  void WakeStep() override { ++wakes; }
  void Shutdown(bool finished, const std::string&) override { job_finished = finished; }

  v1::TaskFigures Figures() override {
    v1::TaskFigures figures;
    figures.set_sent_bytes(5);
    return figures;
  }

  std::vector<std::pair<Adoption::Connection, v1::WorkerToChief>> sent;
  int routes = 0;
  uint64_t generation = 0;
  uint64_t watermark = 0;
  int interrupts = 0;
  int wakes = 0;
  std::optional<bool> job_finished;
};

Program SumProgram() {
  ProgramBuilder b("sum");
  const int batch = b.AddSymbol("batch", 4);
  Expr x = b.Input("x", {DType::kFloat32, {{4, batch}}});
  b.AddOutput("sum", ReduceSum(x));
  auto program = std::move(b).Build();
  REQUIRE(program.ok());
  return *std::move(program);
}

struct CoreFixture {
  CoreFixture() {
    options.index = 2;
    options.incarnation = 77;
    options.classes = {"source Waves"};
    core = std::make_unique<WorkerCore>(options, &clock, log.get(), &effects);
  }

  v1::WorkerToChief Ask(Adoption::Connection connection, v1::ChiefToWorker message) {
    const size_t before = effects.sent.size();
    core->OnMessage(connection, &message);
    if (effects.sent.size() == before) return {};
    for (size_t i = before; i < effects.sent.size(); ++i) {
      if (effects.sent[i].first == connection) return effects.sent[i].second;
    }
    return {};
  }
  v1::WorkerToChief Adopt(Adoption::Connection connection, uint64_t generation, bool probe = false,
                          uint64_t incarnation = 1000, const std::string& job = "job") {
    v1::ChiefToWorker message;
    message.set_generation(generation);
    message.set_request(1);
    message.mutable_adopt()->set_job(job);
    SetProtocolVersion(message.mutable_adopt());
    message.mutable_adopt()->set_probe(probe);
    message.mutable_adopt()->set_chief_incarnation(incarnation + generation);
    return Ask(connection, message);
  }
  v1::WorkerToChief Dispatch(Adoption::Connection connection, uint64_t generation,
                             std::vector<uint64_t> ids) {
    v1::ChiefToWorker message;
    message.set_generation(generation);
    for (const uint64_t id : ids) {
      v1::Closure* closure = message.mutable_dispatch()->add_closures();
      closure->set_id(id);
      closure->set_attempt(1);
      closure->set_timeline(1);
      closure->set_training(true);
      closure->set_program("p");
    }
    return Ask(connection, message);
  }
  void FinishNext() {
    const Work work = core->NextWork(true);
    REQUIRE(work.kind == Work::Kind::kClosure);
    v1::ClosureResult result;
    result.set_id(work.closure->id());
    result.set_attempt(work.closure->attempt());
    core->Finish(result);
  }

  ManualClock clock;
  std::unique_ptr<Logger> log = Logger::Discard();
  Recorder effects;
  WorkerCore::Options options;
  std::unique_ptr<WorkerCore> core;
};

TEST_CASE_METHOD(CoreFixture, "a chief probes, adopts, and is fenced by a newer one") {
  const v1::WorkerToChief probed = Adopt(1, 0, true);
  CHECK(probed.hello().task().index() == 2);
  CHECK(probed.hello().incarnation() == 77);
  CHECK_FALSE(probed.hello().hears_chief());
  // It has been dialed, and need not give up its wait for a chief.
  CHECK(core->probed());
  CHECK_FALSE(core->adopted());
  clock.Advance(std::chrono::seconds(6));
  CHECK_FALSE(core->probed());
  CHECK_FALSE(core->adopted());

  CHECK(Adopt(1, 1).has_hello());
  CHECK(core->adopted());
  CHECK(effects.generation == 1);
  const v1::WorkerToChief second = Adopt(2, 0, true, 5000);
  CHECK(second.hello().hears_chief());
  CHECK_FALSE(second.hello().chief_lost());

  CHECK(Adopt(2, 2).has_hello());
  REQUIRE(effects.sent.size() >= 2);
  CHECK(effects.sent[effects.sent.size() - 2].second.has_fenced());  // to the old one
  CHECK(Dispatch(1, 1, {4}).has_fenced());
  CHECK(core->idle());
  CHECK(Adopt(3, 1).has_fenced());
  CHECK(Adopt(3, 2, false, 9).has_fenced());  // the same generation, another chief
}

TEST_CASE_METHOD(CoreFixture, "a chief that was cut off silently is heard for a while") {
  Adopt(1, 1);
  core->OnClosed(1, ChiefLoss::kSilent);
  const v1::WorkerToChief probed = Adopt(2, 0, true, 5000);
  CHECK(probed.hello().hears_chief());
  CHECK(probed.hello().chief_lost());
  CHECK(Adopt(2, 3, false, 5000, "another").has_fenced());  // busy
  clock.Advance(std::chrono::seconds(11));
  CHECK_FALSE(Adopt(2, 0, true, 5000).hello().hears_chief());
  CHECK(Adopt(2, 1, false, 5000, "another").has_hello());
}

TEST_CASE_METHOD(CoreFixture, "wrong addressees and chiefs without a generation are refused") {
  v1::ChiefToWorker message;
  message.set_generation(1);
  message.mutable_adopt()->mutable_expected()->set_type("worker");
  SetProtocolVersion(message.mutable_adopt());
  message.mutable_adopt()->mutable_expected()->set_index(1);
  CHECK(absl::IsFailedPrecondition(StatusFromProto(Ask(1, message).status())));
  message.mutable_adopt()->mutable_expected()->set_index(2);
  message.set_generation(0);
  CHECK(absl::IsInvalidArgument(StatusFromProto(Ask(1, message).status())));
  CHECK_FALSE(core->adopted());
}

TEST_CASE_METHOD(CoreFixture, "a chief of another major version of the protocol is refused") {
  v1::ChiefToWorker message;
  message.set_generation(1);
  v1::ProtocolVersion* const version = message.mutable_adopt()->mutable_protocol_version();
  version->set_major(99);
  const v1::WorkerToChief refused = Ask(1, message);
  CHECK(refused.status().message().find("the chief speaks protocol 99.0, worker:2 speaks 2.") == 0);
  CHECK(ProtocolVersion::Of(refused.hello()) == kProtocolVersion);
  CHECK(refused.hello().classes(0) == "source Waves");
  CHECK_FALSE(core->adopted());
  version->set_major(kProtocolVersion.major);
  version->set_minor(99);
  CHECK(Ask(1, message).status().code() == 0);
  CHECK(core->adopted());
}

TEST_CASE_METHOD(CoreFixture, "programs are validated and named by their fingerprint") {
  Adopt(1, 1);
  const Program program = SumProgram();
  v1::ChiefToWorker message;
  message.set_generation(1);
  message.set_request(9);
  message.mutable_program()->set_fingerprint(Fingerprint(program));
  ProgramToProto(program, message.mutable_program()->mutable_program());
  SECTION("good, and again") {
    for (int i = 0; i < 2; ++i) {
      const v1::WorkerToChief answer = Ask(1, message);
      CHECK(answer.request() == 9);
      CHECK(answer.status().code() == 0);
    }
    CHECK(Adopt(1, 1).hello().programs_size() == 1);
  }
  SECTION("another name") {
    message.mutable_program()->set_fingerprint("beef");
    CHECK(absl::IsInvalidArgument(StatusFromProto(Ask(1, message).status())));
  }
  SECTION("nonsense") {
    message.mutable_program()->mutable_program()->mutable_nodes(0)->set_op("launch");
    CHECK(absl::IsInvalidArgument(StatusFromProto(Ask(1, message).status())));
  }
}

TEST_CASE_METHOD(CoreFixture, "a reader that was replaced reports nothing any more") {
  Adopt(1, 1);
  v1::ChiefToWorker message;
  message.set_generation(1);
  message.mutable_resource()->set_name("train");
  message.mutable_resource()->set_visitation(v1::INDEPENDENT);
  message.mutable_resource()->set_begin(10);
  message.mutable_resource()->set_timeline(1);
  const auto make = [&] {
    const Work work = core->NextWork(true);
    REQUIRE(work.kind == Work::Kind::kResource);
    core->OnResource(*work.resource, absl::OkStatus());
    return work.resource->begin();
  };
  const auto reader = [&] { return Adopt(1, 1).hello().readers(0); };
  const auto run = [&](uint64_t id, uint64_t timeline, uint64_t batches) {
    v1::ChiefToWorker dispatch;
    dispatch.set_generation(1);
    v1::Closure* closure = dispatch.mutable_dispatch()->add_closures();
    closure->set_id(id);
    closure->set_resource("train");
    Ask(1, dispatch);
    REQUIRE(core->NextWork(true).kind == Work::Kind::kClosure);
    v1::ClosureResult result;
    result.set_id(id);
    core->Finish(std::move(result), {"train", timeline, batches});
  };
  Ask(1, message);
  CHECK(make() == 10);
  CHECK(reader().batches() == 10);
  run(1, 1, 12);
  CHECK(reader().batches() == 12);
  // A restarted chief knows less: the reader continues.
  message.mutable_resource()->set_begin(11);
  Ask(1, message);
  CHECK(core->NextWork(true).kind == Work::Kind::kNone);
  CHECK(reader().batches() == 12);
  // A rollback, and one more while the reader for it is not made.
  message.mutable_resource()->set_begin(5);
  message.mutable_resource()->set_timeline(2);
  Ask(1, message);
  message.mutable_resource()->set_begin(4);
  message.mutable_resource()->set_timeline(3);
  Ask(1, message);
  CHECK(make() == 4);
  CHECK(reader().timeline() == 3);
  CHECK(reader().batches() == 4);
  run(2, 1, 13);
  CHECK(reader().batches() == 4);
  run(3, 3, 5);
  CHECK(reader().batches() == 5);
}

TEST_CASE_METHOD(CoreFixture,
                 "resources are made by the step thread, and the chief hears how it went") {
  Adopt(1, 1);
  CHECK(core->NextWork(true).kind == Work::Kind::kNone);
  v1::ChiefToWorker message;
  message.set_generation(1);
  message.set_request(5);
  message.mutable_resource()->set_name("train");
  CHECK_FALSE(Ask(1, message).has_status());  // not yet
  CHECK(effects.wakes == 1);
  const Work work = core->NextWork(true);
  REQUIRE(work.kind == Work::Kind::kResource);
  SECTION("made") {
    core->OnResource(*work.resource, absl::OkStatus());
    CHECK(effects.sent.back().second.request() == 5);
    CHECK(effects.sent.back().second.status().code() == 0);
    CHECK(Adopt(1, 1).hello().resources(0) == "train");
    message.set_request(6);
    CHECK(Ask(1, message).request() == 6);  // it is there
  }
  SECTION("not made") {
    core->OnResource(*work.resource, NotFound("train.csv"));
    CHECK(absl::IsNotFound(StatusFromProto(effects.sent.back().second.status())));
    Ask(1, message);
    CHECK(core->NextWork(true).kind == Work::Kind::kResource);  // tried again
  }
}

TEST_CASE_METHOD(CoreFixture, "a busy step thread is never woken, and results come in batches") {
  Adopt(1, 1);
  CHECK(core->NextWork(true).kind == Work::Kind::kNone);
  Dispatch(1, 1, {1, 2, 3, 4});
  CHECK(effects.wakes == 1);
  Dispatch(1, 1, {5, 6, 7, 8});
  CHECK(effects.wakes == 1);
  const size_t before = effects.sent.size();
  for (int i = 0; i < 8; ++i) FinishNext();
  size_t messages = effects.sent.size() - before;
  CHECK(messages <= 4);  // 4 + 2 + 1 + 1
  int results = 0;
  for (size_t i = before; i < effects.sent.size(); ++i) {
    results += effects.sent[i].second.results().results_size();
  }
  CHECK(results == 8);
  CHECK(core->NextWork(false).kind == Work::Kind::kNone);
  Dispatch(1, 1, {9});
  CHECK(effects.wakes == 1);  // it said that it would not wait
}

TEST_CASE_METHOD(CoreFixture, "a chief gets what its predecessor did not hear") {
  Adopt(1, 1);
  Dispatch(1, 1, {1, 2, 3});
  FinishNext();
  core->OnClosed(1, ChiefLoss::kClosed);
  const size_t before = effects.sent.size();
  FinishNext();
  core->Tick();
  CHECK(effects.sent.size() == before);
  const Work running = core->NextWork(true);
  const v1::WorkerToChief hello = Adopt(2, 2);
  CHECK(hello.hello().results_size() == 2);
  REQUIRE(hello.hello().in_hand_size() == 1);
  CHECK(hello.hello().in_hand(0).id() == 3);
  v1::ClosureResult result;
  result.set_id(running.closure->id());
  result.set_attempt(1);
  core->Finish(result);
  CHECK(effects.sent.back().first == 2);
  CHECK(effects.sent.back().second.results().results(0).id() == 3);
  CHECK(effects.sent.back().second.generation() == 2);
}

TEST_CASE_METHOD(CoreFixture, "cancelling and rolling back interrupt what runs") {
  Adopt(1, 1);
  Dispatch(1, 1, {1, 2});
  const Work work = core->NextWork(true);
  v1::ChiefToWorker message;
  message.set_generation(1);
  SECTION("cancel") {
    message.mutable_cancel()->add_ids(1);
    message.mutable_cancel()->add_ids(2);
    Ask(1, message);
    CHECK(effects.interrupts == 1);
    CHECK(core->ShouldStop(1));
    CHECK(effects.sent.back().second.results().results(0).id() == 2);
  }
  SECTION("all training closures") {
    message.mutable_cancel()->set_all_training(true);
    message.mutable_cancel()->set_timeline(2);
    Ask(1, message);
    CHECK(effects.interrupts == 1);
    CHECK(core->NextWork(true).kind == Work::Kind::kNone);
  }
  SECTION("routes of a newer timeline") {
    v1::ChiefToWorker settled;
    settled.set_generation(1);
    settled.mutable_dispatch()->set_settled_watermark(1);
    Ask(1, settled);
    CHECK(effects.watermark == 1);
    message.mutable_routes()->set_timeline(2);
    Ask(1, message);
    CHECK(effects.watermark == 0);  // a watermark is of a timeline
    CHECK(effects.routes == 1);
    CHECK(effects.interrupts == 1);
    CHECK(Adopt(1, 1).hello().timeline() == 2);
  }
}

TEST_CASE_METHOD(CoreFixture,
                 "a worker that ends gives back what is queued, and says that others may run it") {
  Adopt(1, 1);
  Dispatch(1, 1, {1, 2, 3});
  const Work work = core->NextWork(true);
  core->Drain("it is ending");
  const v1::Results& results = effects.sent.back().second.results();
  REQUIRE(results.results_size() == 2);
  const absl::Status status = StatusFromProto(results.results(0).status());
  CHECK(absl::IsUnavailable(status));
  CHECK(IsRetryable(status));
  CHECK(GetFailure(status)->role == "worker");
  CHECK(GetFailure(status)->index == 2);
  Dispatch(1, 1, {4});
  CHECK(effects.sent.back().second.results().results(0).id() == 4);
  CHECK(core->NextWork(true).kind == Work::Kind::kStop);
}

TEST_CASE_METHOD(CoreFixture,
                 "a replica that leaves works until the chief that watches it lets go") {
  const TimePoint late = RealClock().Now() + std::chrono::hours(1);
  Adopt(1, 0, true);  // as each chief does before it adopts
  Adopt(1, 1);
  CHECK_FALSE(core->Leave());  // nobody asks
  CHECK_FALSE(Adopt(2, 1, true).hello().leaving());
  CHECK(core->Leave());
  CHECK(Adopt(2, 1, true).hello().leaving());
  CHECK_FALSE(core->AwaitRelease(RealClock().Now()));
  Dispatch(1, 1, {1});
  CHECK(core->NextWork(true).kind == Work::Kind::kClosure);
  std::thread thread([&] { CHECK(core->AwaitRelease(late)); });
  core->OnClosed(1, ChiefLoss::kClosed);
  thread.join();
}

TEST_CASE_METHOD(CoreFixture, "another job starts without closures") {
  Adopt(1, 1);
  Dispatch(1, 1, {1, 2});
  const Work work = core->NextWork(true);
  core->OnClosed(1, ChiefLoss::kClosed);
  Adopt(2, 1, false, 5000, "another");
  CHECK(effects.interrupts == 1);
  CHECK(core->ShouldStop(1));
  const Work next = core->NextWork(true);
  CHECK(next.kind == Work::Kind::kNone);
  CHECK(next.job != work.job);
}

TEST_CASE_METHOD(CoreFixture, "pings, unreachable servers, the end") {
  v1::ChiefToWorker message;
  message.mutable_ping()->set_sent_unix_micros(12);
  const v1::Pong pong = Ask(1, message).pong();
  CHECK(pong.sent_unix_micros() == 12);
  CHECK(pong.figures().sent_bytes() == 5);
  Adopt(1, 1);
  absl::Status status = Unavailable("no route");
  SetFailure(&status, {.role = "ps", .index = 1, .incarnation = 8, .retryable = true});
  core->OnUnreachable(status);
  CHECK(effects.sent.back().second.ps_unreachable().ps() == 1);
  CHECK(effects.sent.back().second.ps_unreachable().incarnation() == 8);
  message.set_generation(1);
  message.mutable_shutdown()->set_job_finished(true);
  Ask(1, message);
  CHECK(effects.job_finished == true);
}

}  // namespace
}  // namespace cohort
