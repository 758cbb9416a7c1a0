#include "tests/cluster/apply_log.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

ApplyEvent Event(uint64_t closure, uint32_t attempt, uint32_t tablet, std::string verdict,
                 uint64_t timeline = 1) {
  return {.closure = closure,
          .attempt = attempt,
          .timeline = timeline,
          .tablet = tablet,
          .verdict = std::move(verdict)};
}

TEST_CASE("a clean log has no violations and counts what it survived") {
  const ApplyReport r = CheckApplyEvents(
      {Event(1, 0, 0, "applied"), Event(1, 0, 1, "applied"), Event(2, 0, 0, "applied"),
       Event(2, 1, 0, "duplicate"), Event(2, 1, 1, "applied")},
      /*finished=*/true);
  REQUIRE(r.violations.empty());
  REQUIRE(r.applied == 4);
  REQUIRE(r.duplicates_refused == 1);
  REQUIRE(r.recomputed_closures == 1);
  REQUIRE(r.partial_pushes == 1);
  REQUIRE(r.mixed_closures == 1);
}

TEST_CASE("the checker finds planted violations") {
  SECTION("an id applied twice to a tablet") {
    REQUIRE(CheckApplyEvents({Event(7, 0, 0, "applied"), Event(7, 1, 0, "applied")}, false)
                .violations.size() == 1);
  }
  SECTION("an id that is missing on a tablet at the end") {
    REQUIRE(
        CheckApplyEvents(
            {Event(7, 0, 0, "applied"), Event(8, 0, 0, "applied"), Event(8, 0, 1, "applied")}, true)
            .violations.size() == 1);
  }
  SECTION("a timeline that goes back") {
    REQUIRE(CheckApplyEvents({Event(7, 0, 0, "applied", 2), Event(8, 0, 0, "applied", 1)}, false)
                .violations.size() == 1);
  }
}

// It may have stood still between the update and the line, and its copy has the update.
TEST_CASE("a primary may report an update late, if its copy has it") {
  const auto log = [](const char* copy) {
    ApplyEvent of_copy = Event(7, 0, 0, copy);
    of_copy.ps = 1;
    return std::vector<ApplyEvent>{of_copy, Event(8, 0, 0, "published"), Event(7, 0, 0, "applied")};
  };
  CHECK(CheckApplyEvents(log("held"), false).violations.empty());
  CHECK(CheckApplyEvents(log("settled"), false).violations.size() == 2);
}

TEST_CASE("the same id in another timeline is another update") {
  REQUIRE(CheckApplyEvents({Event(7, 0, 0, "applied", 1), Event(7, 0, 0, "applied", 2)}, true)
              .violations.empty());
}

}  // namespace
}  // namespace cohort
