#include "chief/core/cluster_adoption.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/job_end.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

// Two workers and a server, and a chief that has no generation yet.
struct Starting {
  explicit Starting(bool continued = false, std::vector<NeededClass> needed_classes = {},
                    Determinism deterministic = Determinism::kOff,
                    std::shared_ptr<const v1::NumericFingerprint> fingerprint = nullptr,
                    const LossScaling& loss_scaling = {}, bool hashed_rows = false,
                    bool copies = false)
      : world(2, 1),
        context([&] {
          world.options.continued = continued;
          world.options.needed_classes = std::move(needed_classes);
          world.options.deterministic = deterministic;
          world.options.fingerprint = std::move(fingerprint);
          world.options.loss_scaling = loss_scaling;
          world.options.hashed_rows = hashed_rows;
          world.options.copies = copies;
          return world.options;
        }()),
        outbox(&world),
        membership(&context.options, &outbox),
        adoption(&context, &outbox, &membership) {
    context.now_us = 1'000'000;
    adoption.Begin();
  }
  void Reach(Link link, int workers) {
    membership.member(PsTask(0)).link = link;
    for (int i = 0; i < workers; ++i) membership.member(WorkerTask(i)).link = link;
  }
  CorePhase Advance() {
    const auto next = adoption.Advance();
    REQUIRE(next.ok());
    context.phase = *next;
    return *next;
  }
  TestWorld world;
  CoreContext context;
  Outbox outbox;
  Membership membership;
  ClusterAdoption adoption;
};

TEST_CASE("what a lost process used is known after another one has taken its place") {
  CoreParts p(1, 1);
  p.Adopt(PsTask(0));
  const auto lost_bytes = [&] {
    return p.membership.ReportOf(PsTask(0), p.context.now_us).lost_memory_bytes;
  };
  v1::Pong pong;
  pong.mutable_figures()->set_memory_bytes(700);
  p.membership.OnPong(PsTask(0), pong);
  CHECK(lost_bytes() == 0);
  p.membership.OnDisconnected(PsTask(0), "reset", p.context.now_us);
  CHECK(lost_bytes() == 700);
  p.membership.OnConnected(PsTask(0), p.context.now_us);
  CHECK(lost_bytes() == 700);
  p.Adopt(PsTask(0), /*incarnation=*/2);
  pong.mutable_figures()->set_memory_bytes(20);
  p.membership.OnPong(PsTask(0), pong);
  CHECK(lost_bytes() == 700);
  CHECK(p.membership.ReportOf(PsTask(0), p.context.now_us).memory_bytes == 20);
}

TEST_CASE("a wait names a replica once, and its part alone if only this is missing") {
  TestWorld world(2, 1);
  CoreOptions options = world.options;
  options.ps[0] = options.workers[0];
  Outbox outbox(&world);
  Membership membership(&options, &outbox);
  CHECK(TaskName(options, PsTask(0)) == "worker:0's part (" + options.workers[0] + ")");
  const std::string second = TaskName(options, WorkerTask(1)) + ", 1 s";
  CHECK(membership.Missing(1'000'000) == TaskName(options, WorkerTask(0)) + ", 1 s; " + second);
  membership.member(WorkerTask(0)).link = Link::kProbed;
  CHECK(membership.Missing(1'000'000) == TaskName(options, PsTask(0)) + ", 1 s; " + second);
}

TEST_CASE("a chief probes all tasks, takes a generation, adopts all, then reads the journal") {
  Starting s;
  CHECK(s.Advance() == CorePhase::kProbing);
  s.Reach(Link::kProbed, 1);
  CHECK(s.Advance() == CorePhase::kProbing);
  s.Reach(Link::kProbed, 2);
  CHECK(s.Advance() == CorePhase::kTaking);
  s.context.phase = *s.adoption.OnGeneration(5);
  CHECK(s.outbox.generation() == 5);
  CHECK(s.membership.member(WorkerTask(0)).link == Link::kAdopting);
  CHECK(s.Advance() == CorePhase::kAdopting);
  s.Reach(Link::kAdopted, 2);
  CHECK(s.Advance() == CorePhase::kReading);
  s.context.phase = s.adoption.WriteStart(/*from_manifest=*/false);
  CHECK(s.context.phase == CorePhase::kStarting);
  REQUIRE(s.world.writing.size() == 1);
  CHECK(s.world.writing[0].start().generation() == 5);
  CHECK(!s.adoption.IsStarted(0));
  CHECK(s.adoption.IsStarted(1));
}

TEST_CASE("a run that is continued does not wait for missing workers longer than the grace") {
  Starting s(/*continued=*/true);
  s.Reach(Link::kProbed, 1);
  CHECK(s.Advance() == CorePhase::kProbing);
  s.context.now_us += s.context.options.adopt_grace_us;
  SECTION("one is missing") { CHECK(s.Advance() == CorePhase::kTaking); }
  SECTION("all are missing") {
    s.Reach(Link::kProbed, 0);
    s.membership.member(WorkerTask(0)).link = Link::kDown;
    CHECK(s.Advance() == CorePhase::kProbing);
  }
}

TEST_CASE("a task that speaks another major version of the protocol is refused by name") {
  Starting s;
  v1::WorkerHello proto;
  proto.mutable_task()->set_type("worker");
  const auto hello = [&] {
    s.membership.OnConnected(WorkerTask(0), s.context.now_us);
    return s.membership.OnHello(WorkerTask(0), HelloOf(0, proto), s.context.now_us);
  };
  proto.mutable_protocol_version()->set_major(kProtocolVersion.major);
  proto.mutable_protocol_version()->set_minor(kProtocolVersion.minor + 1);
  CHECK(hello() == Membership::Verdict::kProbed);
  proto.mutable_protocol_version()->set_major(99);
  CHECK(hello() == Membership::Verdict::kFatal);
  const absl::Status refused = s.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(
      refused.message() ==
      fmt::format("{} speaks protocol 99.{}, this chief speaks {}: install the same major version "
                  "of Cohort for both",
                  s.membership.Name(WorkerTask(0)), kProtocolVersion.minor + 1,
                  kProtocolVersion.ToString()));
  CHECK(s.membership.Missing(s.context.now_us).find("speaks protocol 99") != std::string::npos);
}

TEST_CASE("a job with rows by hash needs tasks that know them") {
  const bool is_hashed = GENERATE(false, true);
  Starting s(false, {}, Determinism::kOff, nullptr, {}, is_hashed);
  v1::WorkerHello proto;
  proto.mutable_task()->set_type("worker");
  SetProtocolVersion(&proto);
  const auto hello = [&] {
    s.membership.OnConnected(WorkerTask(0), s.context.now_us);
    return s.membership.OnHello(WorkerTask(0), HelloOf(0, proto), s.context.now_us);
  };
  CHECK(hello() == Membership::Verdict::kProbed);
  proto.mutable_protocol_version()->set_minor(kHashedRowsProtocol.minor - 1);
  CHECK(hello() == (is_hashed ? Membership::Verdict::kFatal : Membership::Verdict::kProbed));
  if (!is_hashed) return;
  const absl::Status refused = s.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(refused.message().find("does not partition rows by hash") != std::string::npos);
}

TEST_CASE("a job with copies of variables needs servers that keep them") {
  const bool has_copies = GENERATE(false, true);
  Starting s(false, {}, Determinism::kOff, nullptr, {}, false, has_copies);
  const auto hello = [&](Task task, auto proto) {
    proto.mutable_task()->set_type(std::string(RoleName(task.role)));
    SetProtocolVersion(&proto);
    proto.mutable_protocol_version()->set_minor(kCopiesProtocol.minor - 1);
    s.membership.OnConnected(task, s.context.now_us);
    return s.membership.OnHello(task, HelloOf(0, proto), s.context.now_us);
  };
  CHECK(hello(WorkerTask(0), v1::WorkerHello()) == Membership::Verdict::kProbed);
  v1::PsHello server;
  server.set_sees_checkpoint_dir(true);
  CHECK(hello(PsTask(0), server) ==
        (has_copies ? Membership::Verdict::kFatal : Membership::Verdict::kProbed));
  if (!has_copies) return;
  const absl::Status refused = s.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(refused.message().find("is of a version without copies of variables") != std::string::npos);
}

TEST_CASE("a job with a loss scale needs tasks that know it") {
  const bool is_scaled = GENERATE(false, true);
  Starting s(false, {}, Determinism::kOff, nullptr, {.initial = is_scaled ? 1024.0 : 0.0});
  v1::WorkerHello proto;
  proto.mutable_task()->set_type("worker");
  SetProtocolVersion(&proto);
  const auto hello = [&] {
    s.membership.OnConnected(WorkerTask(0), s.context.now_us);
    return s.membership.OnHello(WorkerTask(0), HelloOf(0, proto), s.context.now_us);
  };
  CHECK(hello() == Membership::Verdict::kProbed);
  proto.mutable_protocol_version()->set_minor(kLossScaleProtocol.minor - 1);
  CHECK(hello() == (is_scaled ? Membership::Verdict::kFatal : Membership::Verdict::kProbed));
  if (!is_scaled) return;
  const absl::Status refused = s.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(refused.message().find("is of a version without loss scales") != std::string::npos);
}

TEST_CASE("a worker without a class of the chief is refused by the names of class and plugin") {
  Starting s(/*continued=*/false, {{"source Waves", "lib/waves.so"}, {"transform Fold", ""}});
  v1::WorkerHello proto;
  proto.mutable_task()->set_type("worker");
  SetProtocolVersion(&proto);
  const auto hello = [&] {
    s.membership.OnConnected(WorkerTask(0), s.context.now_us);
    return s.membership.OnHello(WorkerTask(0), HelloOf(0, proto), s.context.now_us);
  };
  for (const char* name : {"transform Fold", "source Waves", "source Other"}) {
    proto.add_classes(name);
  }
  CHECK(hello() == Membership::Verdict::kProbed);
  const std::string worker = s.membership.Name(WorkerTask(0));
  proto.set_classes(1, "source Sines");
  CHECK(hello() == Membership::Verdict::kFatal);
  const absl::Status refused = s.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(refused.message() ==
        worker +
            " has no source Waves, which the chief has from plugin lib/waves.so: start the "
            "worker with --plugin, too");
  proto.set_classes(1, "source Waves");
  proto.set_classes(0, "transform Bend");
  CHECK(hello() == Membership::Verdict::kFatal);
  CHECK(s.membership.failure().message() ==
        worker +
            " has no transform Fold, which the program of the chief registers: give the "
            "worker a plugin that has it");
}

// The verdict on a worker that calculates with these instructions.
Membership::Verdict HelloWith(Starting* s, int worker, const std::string& instructions) {
  v1::WorkerHello proto;
  proto.mutable_task()->set_type("worker");
  proto.mutable_task()->set_index(worker);
  proto.mutable_fingerprint()->set_instruction_set(instructions);
  proto.mutable_fingerprint()->set_libraries("onednn 2.6.3");
  proto.mutable_fingerprint()->set_device_kind("cpu");
  proto.mutable_fingerprint()->set_intra_op_threads(worker);  // changes no result
  SetProtocolVersion(&proto);
  s->membership.OnConnected(WorkerTask(worker), s->context.now_us);
  return s->membership.OnHello(WorkerTask(worker), HelloOf(0, proto), s->context.now_us);
}

TEST_CASE("a worker that calculates otherwise is logged once, or refused by name") {
  Starting watched(false, {}, Determinism::kWatched);
  CHECK(HelloWith(&watched, 0, "avx2") == Membership::Verdict::kProbed);
  CHECK(HelloWith(&watched, 1, "avx2") == Membership::Verdict::kProbed);
  CHECK(watched.world.notes.empty());
  REQUIRE(watched.membership.fingerprint().has_value());
  CHECK(watched.membership.fingerprint()->instruction_set() == "avx2");
  for (int i = 0; i < 2; ++i) {
    CHECK(HelloWith(&watched, 1, "avx512") == Membership::Verdict::kProbed);
  }
  const std::string first = watched.membership.Name(WorkerTask(0));
  const std::string second = watched.membership.Name(WorkerTask(1));
  const std::string what = fmt::format(
      "{} calculates by avx512 on cpu with onednn 2.6.3, but {} by avx2 on cpu with onednn 2.6.3",
      second, first);
  REQUIRE(watched.world.notes.size() == 1);
  CHECK_THAT(watched.world.notes[0],
             Catch::Contains("fingerprint_differs") && Catch::Contains(what));

  Starting required(false, {}, Determinism::kRequired);
  CHECK(HelloWith(&required, 0, "avx2") == Membership::Verdict::kProbed);
  CHECK(HelloWith(&required, 1, "avx512") == Membership::Verdict::kFatal);
  const absl::Status refused = required.adoption.Advance().status();
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK_THAT(std::string(refused.message()),
             Catch::StartsWith(what) && Catch::Contains("deterministic: true"));

  Starting off;
  CHECK(HelloWith(&off, 0, "avx2") == Membership::Verdict::kProbed);
  CHECK(HelloWith(&off, 1, "avx512") == Membership::Verdict::kProbed);
  CHECK(off.world.notes.empty());
  CHECK(!off.membership.fingerprint().has_value());
}

TEST_CASE("a job that continues must calculate as its checkpoint") {
  auto then = std::make_shared<v1::NumericFingerprint>();
  then->set_instruction_set("sse4");
  then->set_libraries("onednn 2.6.3");
  then->set_device_kind("cpu");
  Starting s(/*continued=*/true, {}, Determinism::kRequired, then);
  CHECK(HelloWith(&s, 0, "sse4") == Membership::Verdict::kProbed);
  CHECK(HelloWith(&s, 1, "avx2") == Membership::Verdict::kFatal);
  CHECK_THAT(std::string(s.membership.failure().message()),
             Catch::Contains("but the checkpoint by sse4 on cpu"));
}

TEST_CASE("a generation that cannot exist is an error of configuration") {
  Starting s;
  CHECK(ExitCodeOf(s.adoption.OnGeneration(OutOfRange("too far")).status()) == ExitCode::kConfig);
  CHECK(absl::IsUnavailable(s.adoption.OnGeneration(Unavailable("the disk")).status()));
}

TEST_CASE("a chief that a newer one has fenced ends; else the task is adopted again") {
  Starting s;
  s.outbox.SetGeneration(3);
  s.membership.member(WorkerTask(0)).link = Link::kAdopted;
  v1::Fenced fenced;
  fenced.set_current_generation(3);
  CHECK(s.adoption.OnFenced(WorkerTask(0), fenced).ok());
  CHECK(s.world.notes.size() == 1);
  fenced.set_current_generation(4);
  const absl::Status newer = s.adoption.OnFenced(WorkerTask(0), fenced);
  CHECK(absl::IsAborted(newer));
  CHECK(!IsRetryable(newer));
}

TEST_CASE("the end of the job is sent to a task when its record is durable") {
  CoreParts p(2, 1);
  JobEnd end(&p.outbox);
  CHECK(!end.begun());
  for (const Task task : {WorkerTask(0), WorkerTask(1), PsTask(0)}) p.Adopt(task);
  end.Begin("done", /*job_finished=*/true, 8);
  CHECK(!end.journaled(7));
  CHECK(end.journaled(8));
  end.SendShutdown(WorkerTask(1));
  CHECK(p.sent(0).empty());
  end.SendShutdown(PsTask(0));
  CHECK(p.sent(1).back().shutdown().reason() == "done");
  CHECK(p.sent_to_ps(0).back().shutdown().job_finished());
}

}  // namespace
}  // namespace cohort
