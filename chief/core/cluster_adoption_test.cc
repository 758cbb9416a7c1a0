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
  explicit Starting(bool continued = false)
      : world(2, 1),
        context([&] {
          world.options.continued = continued;
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

TEST_CASE("the end of the job is sent to every task when its record is durable") {
  CoreParts p(2, 1);
  JobEnd end(&p.context, &p.outbox);
  CHECK(!end.begun());
  for (const Task task : {WorkerTask(0), WorkerTask(1), PsTask(0)}) p.Adopt(task);
  end.Begin("done", /*job_finished=*/true, 8);
  CHECK(!end.journaled(7));
  CHECK(end.journaled(8));
  end.SendShutdown();
  CHECK(p.sent(1).back().shutdown().reason() == "done");
  CHECK(p.sent_to_ps(0).back().shutdown().job_finished());
}

}  // namespace
}  // namespace cohort
