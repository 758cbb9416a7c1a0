#include "chief/core/cut.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "chief/core/finished_closures.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;

// Two servers that are adopted, and one cut of timeline 1.
struct Cutting : CoreParts {
  Cutting() : CoreParts(1, 2), cut(&context.options, &outbox) {
    Adopt(PsTask(0));
    Adopt(PsTask(1));
  }
  // Begins a cut, and asks the servers for their snapshots.
  void Snapshot(bool finished = false) {
    cut.Begin(finished, /*timeline=*/1, context.now_us);
    cut.Snapshot(cut.manifest(), {0, 1}, context.now_us);
  }
  v1::PsToChief AnswerOf(int ps) {
    v1::PsToChief answer;
    answer.set_request(sent_to_ps(ps)[0].request());
    return answer;
  }
  bool Taken(int ps) {
    v1::PsToChief answer = AnswerOf(ps);
    answer.mutable_snapshot_taken()->set_cut(cut.number());
    answer.mutable_snapshot_taken()->add_tablets()->set_tablet(static_cast<uint32_t>(ps));
    return cut.OnPsMessage(ps, answer, context.now_us);
  }
  bool Written(int ps) {
    v1::PsToChief answer = AnswerOf(ps);
    answer.mutable_snapshot_written()->set_cut(cut.number());
    answer.mutable_snapshot_written()->add_files()->set_name(fmt::format("ps-{}", ps));
    return cut.OnPsMessage(ps, answer, context.now_us);
  }
  void Write() {
    for (int ps = 0; ps < 2; ++ps) REQUIRE(Taken(ps));
    for (int ps = 0; ps < 2; ++ps) REQUIRE(Written(ps));
    REQUIRE(cut.state() == Cut::State::kCommitting);
  }
  void Commit() {
    Write();
    REQUIRE(cut.OnManifestWritten(cut.number(), absl::OkStatus(), "path"));
  }
  bool dropped(int ps) { return sent_to_ps(ps).back().has_drop_snapshot(); }

  Cut cut;
};

TEST_CASE("a cut drains the closures in flight until its deadline") {
  Cutting c;
  CHECK(!c.cut.drained(0, c.context.now_us));
  c.cut.SkipTo(7);
  CHECK(c.cut.Begin(/*finished=*/false, /*timeline=*/1, c.context.now_us) == 7);
  CHECK(c.cut.holds_dispatch());
  CHECK(!c.cut.drained(1, c.context.now_us));
  CHECK(c.cut.drained(0, c.context.now_us));
  c.context.now_us += MicrosFromSeconds(c.context.options.cut_deadline_s);
  CHECK(c.cut.drained(1, c.context.now_us));
  CHECK(Contains(c.cut.Waiting(1, c.context.now_us), "1 closures in flight to end"));
}

TEST_CASE("a cut asks every server, then commits, then journals") {
  Cutting c;
  c.Snapshot(/*finished=*/true);
  CHECK(c.sent_to_ps(1)[0].snapshot().directory() == "/ckpt/ckpt-1-1-0");
  CHECK(c.Taken(0));
  CHECK(c.cut.holds_dispatch());
  c.context.now_us += 70'000;
  CHECK(c.Taken(1));
  CHECK(c.cut.counters().held_us == 70'000);
  CHECK(!c.cut.holds_dispatch());
  CHECK(c.Written(0));
  CHECK(c.Written(0));  // again
  CHECK(c.cut.state() == Cut::State::kWriting);
  CHECK(c.Written(1));
  CHECK(c.cut.state() == Cut::State::kCommitting);
  CHECK(c.cut.manifest().tablets_size() == 2);
  CHECK(c.cut.manifest().files_size() == 2);

  CHECK(!c.cut.OnManifestWritten(c.cut.number() + 1, absl::OkStatus(), "path"));
  CHECK(!c.cut.finish_committed());
  CHECK(c.cut.OnManifestWritten(c.cut.number(), absl::OkStatus(), "path"));
  CHECK(c.cut.finish_committed());
  REQUIRE(c.world.writing.size() == 1);
  CHECK(c.world.writing[0].cut().manifest() == "path");
  c.cut.OnJournaled(c.world.writing[0].number() - 1);
  CHECK(c.world.cuts_done.empty());
  c.cut.OnJournaled(c.world.writing[0].number());
  CHECK(c.cut.state() == Cut::State::kIdle);
  CHECK(c.world.cuts_done == std::vector<absl::Status>{absl::OkStatus()});
  CHECK(c.cut.counters().cuts == 1);
  c.cut.ForgetCommitted();
  CHECK(!c.cut.finish_committed());
}

TEST_CASE("a manifest is small although a straggler held the watermark for long") {
  constexpr uint64_t kIds = 200'000;
  const auto under_way = [](uint64_t id) { return id % 20'000 == 0; };
  Cutting c;
  c.cut.Begin(/*finished=*/false, /*timeline=*/1, c.context.now_us);
  v1::Manifest manifest = c.cut.manifest();
  std::vector<uint64_t> finished;
  for (uint64_t id = 1; id < kIds; ++id) {
    if (!under_way(id)) finished.push_back(id);
  }
  SetFinished(finished, manifest.mutable_chief());
  c.cut.Snapshot(std::move(manifest), {0, 1}, c.context.now_us);
  for (int ps = 0; ps < 2; ++ps) {
    v1::PsToChief answer = c.AnswerOf(ps);
    answer.mutable_snapshot_taken()->set_cut(c.cut.number());
    v1::AppliedSetProto* const applied =
        answer.mutable_snapshot_taken()->add_tablets()->mutable_applied();
    for (uint64_t id = 0; id < kIds; ++id) applied->add_applied()->set_closure(id);
    CHECK(c.cut.OnPsMessage(ps, answer, c.context.now_us));
  }
  CHECK(c.cut.manifest().tablets(1).applied().applied_size() == 10);
  CHECK(c.cut.manifest().ByteSizeLong() < 1'000);
}

TEST_CASE("the last snapshot has averages, unless the job ends with other weights") {
  const bool finished = GENERATE(true, false);
  const bool ends_with_averages = GENERATE(true, false);
  Cutting c;
  CoreOptions options = c.context.options;
  options.ends_with_averages = ends_with_averages;
  Cut cut(&options, &c.outbox);
  cut.Begin(finished, /*timeline=*/1, c.context.now_us);
  cut.Snapshot(cut.manifest(), {0, 1}, c.context.now_us);
  CHECK(c.sent_to_ps(0)[0].snapshot().averages() == (finished && ends_with_averages));
}

TEST_CASE("a cut names the last committed checkpoint as its base, and each n-th has all rows") {
  Cutting c;
  CoreOptions options = c.context.options;
  options.full_every = 3;
  Cut cut(&options, &c.outbox);
  // Returns the base that the servers are asked for. `increment`: server 1 writes one.
  const auto take = [&](bool commits, bool increment, bool finished = false) {
    cut.Begin(finished, /*timeline=*/1, c.context.now_us);
    cut.Snapshot(cut.manifest(), {0, 1}, c.context.now_us);
    const v1::TakeSnapshot asked = c.sent_to_ps(0).back().snapshot();
    CHECK(asked.increments());
    for (int ps = 0; ps < 2; ++ps) {
      CHECK(c.sent_to_ps(ps).back().snapshot().base() == asked.base());
      v1::PsToChief taken, written;
      taken.mutable_snapshot_taken()->set_cut(cut.number());
      REQUIRE(cut.OnPsMessage(ps, taken, c.context.now_us));
      written.mutable_snapshot_written()->set_cut(cut.number());
      written.mutable_snapshot_written()->add_files()->set_increment(increment && ps == 1);
      REQUIRE(cut.OnPsMessage(ps, written, c.context.now_us));
    }
    if (commits) {
      REQUIRE(cut.OnManifestWritten(cut.number(), absl::OkStatus(), "path"));
      cut.OnJournaled(UINT64_MAX);
    } else {
      cut.Abandon(Unavailable("the storage does not answer"));
    }
    return asked.base();
  };
  CHECK(take(true, false).empty());
  CHECK(take(false, true) == "ckpt-1-1-0");
  CHECK(take(true, true) == "ckpt-1-1-0");
  CHECK(cut.manifest().base() == "ckpt-1-1-0");
  CHECK(cut.manifest().increments() == 1);
  CHECK(take(true, true) == "ckpt-1-1-2");
  CHECK(cut.manifest().increments() == 2);
  CHECK(take(true, false).empty());
  // The servers have written all rows: the checkpoint needs no other.
  CHECK(take(true, false) == "ckpt-1-1-4");
  CHECK(cut.manifest().base().empty());
  CHECK(take(true, true) == "ckpt-1-1-5");
  CHECK(take(true, false, /*finished=*/true).empty());
  CHECK(take(true, true) == "ckpt-1-1-7");
  cut.ForgetCommitted();  // a rollback
  CHECK(take(true, false).empty());
}

TEST_CASE("a cut that fails lets dispatch continue, and the servers drop their snapshots") {
  Cutting c;
  c.Snapshot();
  CHECK(c.Taken(0));
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  SECTION("a server is lost") { c.cut.LoseServer(Unavailable("ps:1 is lost")); }
  SECTION("a server refuses") {
    v1::PsToChief refusal = c.AnswerOf(1);
    StatusToProto(Unavailable("no"), refusal.mutable_status());
    CHECK(c.cut.OnPsMessage(1, refusal, c.context.now_us));
  }
  SECTION("a server is late") {
    code = absl::StatusCode::kDeadlineExceeded;
    c.context.now_us += c.context.options.snapshot_deadline_us;
    CHECK(Contains(c.cut.Waiting(0, c.context.now_us), "ps:1 (p1:1) to take a snapshot"));
    c.cut.Tick(c.context.now_us);
    CHECK(Contains(std::string(c.world.cuts_done.at(0).message()), "ps:1 did not take"));
  }
  CHECK(c.cut.state() == Cut::State::kIdle);
  CHECK(!c.cut.holds_dispatch());
  CHECK(c.dropped(0));
  CHECK(c.dropped(1));
  REQUIRE(c.world.cuts_done.size() == 1);
  CHECK(c.world.cuts_done[0].code() == code);
  CHECK(c.cut.counters().cut_failures == 1);
}

TEST_CASE("a server that reports progress has as long as it needs to write a snapshot") {
  Cutting c;
  c.Snapshot();
  for (int ps = 0; ps < 2; ++ps) REQUIRE(c.Taken(ps));
  CHECK(c.Written(0));
  v1::PsToChief report = c.AnswerOf(1);
  for (uint64_t i = 1; i <= 10; ++i) {
    c.context.now_us += c.context.options.write_deadline_us - 1;
    report.mutable_progress()->set_bytes(i * 1'000'000);
    CHECK(c.cut.OnPsMessage(1, report, c.context.now_us));
    c.cut.Tick(c.context.now_us);
    REQUIRE(c.cut.state() == Cut::State::kWriting);
  }
  c.context.now_us += c.context.options.write_deadline_us;
  c.cut.Tick(c.context.now_us);
  CHECK(Contains(std::string(c.world.cuts_done.at(0).message()),
                 "ps:1 has written nothing for 300 s after 0.010 GB"));
}

TEST_CASE("a cut that drains is abandoned without a message to the servers") {
  Cutting c;
  c.cut.Begin(/*finished=*/false, /*timeline=*/1, c.context.now_us);
  c.cut.Abandon(Aborted("the cluster is being rolled back"));
  CHECK(!c.cut.holds_dispatch());
  CHECK(c.sent_to_ps(0).empty());
  REQUIRE(c.world.cuts_done.size() == 1);
  CHECK(absl::IsAborted(c.world.cuts_done[0]));
}

TEST_CASE("a cut whose files are durable does not need the servers") {
  Cutting c;
  c.Snapshot();
  c.Write();
  c.cut.LoseServer(Unavailable("ps:1 is lost"));
  CHECK(c.cut.state() == Cut::State::kCommitting);
  SECTION("its manifest cannot be written") {
    CHECK(!c.cut.OnManifestWritten(c.cut.number(), Internal("the disk"), ""));
    CHECK(c.dropped(1));
    CHECK(absl::IsInternal(c.world.cuts_done.at(0)));
  }
  SECTION("its manifest is late") {
    c.cut.Tick(c.context.now_us + c.context.options.commit_deadline_us);
    CHECK(absl::IsDeadlineExceeded(c.world.cuts_done.at(0)));
    // Storage may write it later: the chief no longer wants it.
    CHECK(!c.cut.OnManifestWritten(c.cut.number(), absl::OkStatus(), "path"));
  }
}

TEST_CASE("a committed checkpoint counts even if its record is never durable") {
  Cutting c;
  c.Snapshot();
  c.Commit();
  c.cut.Abandon(Aborted("the cluster is being rolled back"));
  CHECK(!c.dropped(0));
  CHECK(c.world.cuts_done == std::vector<absl::Status>{absl::OkStatus()});
}

TEST_CASE("answers that belong to another cut or to no cut do not count") {
  Cutting c;
  v1::PsToChief other;
  other.mutable_snapshot_taken()->set_cut(9);
  CHECK(!c.cut.OnPsMessage(0, other, c.context.now_us));  // no cut is active
  c.Snapshot();
  CHECK(!c.cut.OnPsMessage(0, other, c.context.now_us));
  v1::PsToChief late = c.AnswerOf(0);
  late.set_request(late.request() + 100);
  late.mutable_snapshot_taken()->set_cut(c.cut.number());
  CHECK(c.cut.OnPsMessage(0, late, c.context.now_us));
  CHECK(c.Taken(1));
  CHECK(c.cut.state() == Cut::State::kSnapshotting);
}

}  // namespace
}  // namespace cohort
