#include "chief/core/rollback.h"

#include <catch2/catch.hpp>

#include "chief/core/core_parts_test_util.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;

// Two servers that are adopted, and a rollback to cut 3 at the new timeline 2.
struct RollingBack : CoreParts {
  explicit RollingBack(const std::string& manifest = "path")
      : CoreParts(1, 2), options(context.options), rollback(&options, &outbox, &homes) {
    options.initial_values = "values";
    Adopt(PsTask(0));
    Adopt(PsTask(1));
    rollback.Begin({.timeline = 2, .term = 5, .reserved_end = 30, .cut = 3, .manifest = manifest},
                   v1::Layout(), {1, 2}, context.now_us);
  }
  uint64_t record() const { return world.writing.back().number(); }
  bool Answer(int ps, uint64_t timeline = 2, const std::string& initial_values = "") {
    v1::PsToChief answer;
    answer.set_request(sent_to_ps(ps).back().request());
    answer.mutable_assigned()->set_timeline(timeline);
    answer.mutable_assigned()->set_initial_values(initial_values);
    return rollback.OnPsMessage(ps, answer, context.now_us);
  }
  CoreOptions options;
  Rollback rollback;
};

TEST_CASE("a rollback is journaled, then the servers get their tablets") {
  RollingBack r;
  CHECK(r.rollback.holds_settlement());
  CHECK(r.world.writing.back().rollback().timeline() == 2);
  CHECK(r.world.writing.back().rollback().manifest() == "path");
  CHECK(!r.rollback.OnJournaled(r.record() - 1, r.context.now_us));
  CHECK(r.sent_to_ps(0).empty());
  CHECK(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(!r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(!r.rollback.holds_settlement());
  REQUIRE(r.sent_to_ps(1).size() == 1);
  const v1::AssignTablets& assign = r.sent_to_ps(1)[0].assign();
  CHECK(assign.ps() == 1);
  CHECK(assign.servers_of_host() == 2);
  CHECK(assign.timeline() == 2);
  CHECK(assign.term() == 5);
  CHECK(assign.restore_from() == "path");
  CHECK(assign.initial_values().empty());
  CHECK(assign.floor().watermark() == 30);
}

TEST_CASE("a rollback to the initial state names the file of initial values") {
  RollingBack r("");
  REQUIRE(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(r.sent_to_ps(0)[0].assign().initial_values() == "values");
  SECTION("servers that have read it") {
    CHECK(r.Answer(0, 2, "values"));
    CHECK(r.Answer(1, 2, "values"));
    CHECK(r.rollback.TakeDone());
  }
  SECTION("a server of an older version, which does not know it") {
    CHECK(r.Answer(0));
    CHECK(!r.rollback.active());
    CHECK(r.world.rollbacks_done.at(0).code() == absl::StatusCode::kFailedPrecondition);
  }
}

TEST_CASE("a rollback is done when all servers have answered") {
  RollingBack r;
  REQUIRE(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(r.Answer(1));
  CHECK(!r.Answer(1));  // it has answered already
  CHECK(!r.rollback.TakeDone());
  CHECK(r.Answer(0));
  CHECK(!r.rollback.active());
  CHECK(r.rollback.TakeDone());
  CHECK(!r.rollback.TakeDone());
  CHECK(r.world.rollbacks_done.empty());  // its owner reports success
}

TEST_CASE("a rollback fails if a server cannot follow") {
  RollingBack r;
  REQUIRE(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(r.Answer(0));
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  SECTION("it is lost") { r.rollback.Fail(Unavailable("ps:1 is lost")); }
  SECTION("it refuses") {
    v1::PsToChief refusal;
    refusal.set_request(r.sent_to_ps(1)[0].request());
    StatusToProto(Unavailable("no"), refusal.mutable_status());
    CHECK(r.rollback.OnPsMessage(1, refusal, r.context.now_us));
  }
  SECTION("it has assigned another timeline") {
    code = absl::StatusCode::kInternal;
    CHECK(r.Answer(1, /*timeline=*/1));
  }
  SECTION("it does not answer") {
    code = absl::StatusCode::kDeadlineExceeded;
    r.rollback.Tick(r.context.now_us + r.context.options.assign_deadline_us - 1);
    CHECK(r.rollback.active());
    r.rollback.Tick(r.context.now_us + r.context.options.assign_deadline_us);
    CHECK(Contains(std::string(r.world.rollbacks_done.at(0).message()),
                   "tablets: ps:1 has read nothing for 300 s after 0.000 GB"));
  }
  CHECK(!r.rollback.active());
  CHECK(!r.rollback.TakeDone());
  REQUIRE(r.world.rollbacks_done.size() == 1);
  CHECK(r.world.rollbacks_done[0].code() == code);
}

TEST_CASE("a server that reports progress has as long as it needs for its tablets") {
  RollingBack r;
  REQUIRE(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(r.Answer(0));
  v1::PsToChief report;
  report.set_request(r.sent_to_ps(1).back().request());
  for (uint64_t i = 1; i <= 10; ++i) {
    r.context.now_us += r.context.options.assign_deadline_us - 1;
    report.mutable_progress()->set_bytes(i * 1'000'000'000);
    CHECK(r.rollback.OnPsMessage(1, report, r.context.now_us));
    r.rollback.Tick(r.context.now_us);
    REQUIRE(r.rollback.active());
  }
  // A report without progress counts for nothing.
  r.context.now_us += r.context.options.assign_deadline_us;
  CHECK(r.rollback.OnPsMessage(1, report, r.context.now_us));
  r.rollback.Tick(r.context.now_us);
  REQUIRE(r.world.rollbacks_done.size() == 1);
  CHECK(Contains(std::string(r.world.rollbacks_done[0].message()),
                 "ps:1 has read nothing for 300 s after 10.000 GB"));
}

TEST_CASE("settle records are held until a rollback is journaled, even if it fails before") {
  RollingBack r;
  r.rollback.Fail(Unavailable("ps:1 is lost"));
  CHECK(!r.rollback.active());
  CHECK(r.rollback.holds_settlement());
  CHECK(!r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(r.rollback.holds_settlement());
  r.rollback.Begin({.timeline = 3}, v1::Layout(), {}, r.context.now_us);
  CHECK(r.rollback.OnJournaled(r.record(), r.context.now_us));
  CHECK(!r.rollback.holds_settlement());
}

TEST_CASE("all ids below the reserved end count as settled, except the cut's pending ones") {
  const auto floor = FloorOf({.reserved_end = 30, .pending = {21, 22, 25}});
  CHECK(floor.watermark() == 21);
  REQUIRE(floor.closed_size() == 2);
  CHECK(floor.closed(0).begin() == 23);
  CHECK(floor.closed(0).end() == 25);
  CHECK(floor.closed(1).begin() == 26);
  CHECK(floor.closed(1).end() == 30);
}

}  // namespace
}  // namespace cohort
