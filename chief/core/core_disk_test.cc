// A disk that is full or does not answer, as the core sees it.
#include <catch2/catch.hpp>

#include "chief/core/core_test_world.h"
#include "common/base/status.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;

constexpr int64_t kSecond = 1'000'000;

struct Training {
  Training() : world(2, 2) {
    world.options.commit_deadline_us = 5 * kSecond;
    world.StartServing();
  }
  void Train() {
    const size_t before = world.done.size();
    for (int i = 0; i < 8; ++i) REQUIRE(world.ScheduleUser().ok());
    world.Quiesce();
    CHECK(world.done.size() == before + 8);
    for (const auto& [token, status] : world.done) CHECK(status.ok());
  }
  TestWorld world;
};

TEST_CASE("a journal that cannot be written is what is waited for, with the reason") {
  Training t;
  t.world.journal_stuck = true;
  REQUIRE(t.world.ScheduleUser().ok());
  t.world.Quiesce();
  t.world.Advance(kSecond);  // the record of what is settled is due
  t.world.Quiesce();
  CHECK(t.world.core().view().WaitingFor().empty());  // a disk may be busy
  t.world.Advance(4 * kSecond);
  CHECK(Contains(t.world.core().view().WaitingFor(),
                 "waiting for the journal: the disk does not answer, 4 s"));
  t.world.core().OnJournaled(ResourceExhausted("cannot write /c/journal-1: no space"));
  t.world.Advance(kSecond);
  CHECK(t.world.core().view().WaitingFor() ==
        "waiting for the journal: cannot write /c/journal-1: no space, 5 s");
  CHECK(t.world.core().view().journal.stalled_us() == 5 * kSecond);
  CHECK(t.world.core().view().journal.refusals() == 1);
  t.world.journal_stuck = false;
  t.world.Quiesce();
  t.world.Advance(kSecond);
  CHECK(t.world.core().view().WaitingFor().empty());
  CHECK(t.world.core().view().journal.stalled_us() == 0);
  t.Train();
}

TEST_CASE("a manifest that storage does not take ends the cut, and training continues") {
  Training t;
  REQUIRE(t.world.core().StartCut(false).ok());
  t.world.Quiesce();
  const std::string before = t.world.newest;
  t.world.manifest_stuck = true;
  const uint64_t cut = *t.world.core().StartCut(false);
  t.world.Quiesce();
  CHECK(t.world.core().view().cut.commits(cut));
  t.world.Advance(4 * kSecond);
  CHECK(t.world.core().view().cut.active());
  t.world.Advance(kSecond);
  REQUIRE(t.world.cuts_done.size() == 2);
  CHECK(absl::IsDeadlineExceeded(t.world.cuts_done[1]));
  CHECK(Contains(std::string(t.world.cuts_done[1].message()),
                 "/manifest.json was not written in 5 s"));
  CHECK(t.world.newest == before);
  CHECK(!t.world.core().view().cut.commits(cut));
  t.Train();
  t.world.manifest_stuck = false;
  t.world.Quiesce();  // it comes late, and is nobody's
  CHECK(t.world.cuts_done.size() == 2);
  REQUIRE(t.world.core().StartCut(false).ok());
  t.world.Quiesce();
  REQUIRE(t.world.cuts_done.size() == 3);
  CHECK(t.world.cuts_done[2].ok());
}

TEST_CASE("a cut that takes long names what it waits for") {
  Training t;
  TestWorld& world = t.world;
  world.options.silence_us = int64_t{1} << 60;
  world.KillChief();
  world.StartServing();
  world.hold_work = true;
  REQUIRE(world.ScheduleUser().ok());
  world.Quiesce();
  const uint64_t cut = *world.core().StartCut(false);
  const std::string of = fmt::format(
      "waiting for checkpoint /ckpt/ckpt-{}-2-{}: ", world.core().view().timeline(), cut);
  const auto waits = [&] {
    CHECK(world.core().view().WaitingForCut().empty());  // a moment
    world.Advance(4 * kSecond);
    return world.core().view().WaitingForCut();
  };
  CHECK(waits() == of + "1 closures in flight to end, 4 s");
  CHECK(world.core().view().WaitingFor() ==
        world.core().view().WaitingForCut());  // training stands still
  world.hold_work = false;
  while (world.DeliverOne() && world.ps[0].in.empty()) {
  }
  REQUIRE(world.ToPs(0));
  while (world.FromPs(0)) {
  }
  CHECK(waits() == of + "ps:1 (p1:1) to take a snapshot, 4 s");
  REQUIRE(world.ToPs(1));
  REQUIRE(world.FromPs(1));
  CHECK(waits() == of + "ps:1 (p1:1) to write a snapshot, 4 s");
  CHECK(world.core().view().WaitingFor().empty());  // training continues
  world.manifest_stuck = true;
  world.Quiesce();
  CHECK(waits() == of + "the storage to take its manifest, 4 s");
  world.manifest_stuck = false;
  world.journal_stuck = true;
  world.Quiesce();
  CHECK(waits() == of + "the journal to have it, 4 s");
  world.journal_stuck = false;
  world.Quiesce();
  CHECK(world.core().view().WaitingForCut().empty());
  CHECK(world.cuts_done.back().ok());
}

TEST_CASE("a checkpoint that is committed does not wait for a journal that is stuck") {
  Training t;
  REQUIRE(t.world.core().StartCut(false).ok());
  t.world.journal_stuck = true;
  t.world.Quiesce();
  CHECK(t.world.core().view().cut.active());
  CHECK(!t.world.newest.empty());
  t.world.Advance(kSecond);
  t.world.Advance(4 * kSecond);
  REQUIRE(t.world.cuts_done.size() == 1);
  CHECK(t.world.cuts_done[0].ok());
  CHECK(!t.world.core().view().cut.active());
  CHECK(Contains(t.world.core().view().WaitingFor(), "waiting for the journal"));
  t.world.journal_stuck = false;
  t.Train();
}

TEST_CASE("a finished job ends on a full disk when its last manifest is there") {
  Training t;
  t.Train();
  const bool finished = GENERATE(true, false);
  REQUIRE(t.world.core().StartCut(finished).ok());
  t.world.Quiesce();
  t.world.journal_stuck = true;
  t.world.core().Stop("the end", /*job_finished=*/true);
  t.world.Advance(kSecond);
  CHECK(t.world.core().view().phase() ==
        CoordinatorCore::Phase::kReady);  // the disk may only be busy
  t.world.core().OnJournaled(ResourceExhausted("cannot write /c/journal-1: no space"));
  t.world.Advance(kSecond);
  const bool stopped = t.world.core().view().phase() == CoordinatorCore::Phase::kStopped;
  CHECK(stopped == finished);
  CHECK(!t.world.core().view().stop_journaled());
  for (const FakeWorker& worker : t.world.workers) {
    const bool shutdown = !worker.in.empty() && worker.in.back().shutdown().job_finished();
    CHECK(shutdown == finished);
  }
  t.world.journal_stuck = false;
  t.world.Quiesce();
  CHECK(t.world.core().view().phase() == CoordinatorCore::Phase::kStopped);
}

}  // namespace
}  // namespace cohort
