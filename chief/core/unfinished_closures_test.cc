#include "chief/core/unfinished_closures.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

using Outcome = UnfinishedClosures::Outcome;

v1::ClosureResult ResultOf(uint64_t id, uint32_t attempt, int code = 0) {
  v1::ClosureResult result;
  result.set_id(id);
  result.set_attempt(attempt);
  result.mutable_status()->set_code(code);
  return result;
}

// Closures 11 and 12 of places 30 and 20; attempts 2 to 5 are wanted.
UnfinishedClosures Two() {
  UnfinishedClosures u;
  u.Add({.closure = {.id = 11, .place = 30, .steps = 2}, .attempt = 5, .min_attempt = 2});
  u.Add({.closure = {.id = 12, .place = 20, .steps = 1}, .attempt = 5, .min_attempt = 2});
  return u;
}

TEST_CASE("unfinished closures are found by place and taken up under their ids, once") {
  UnfinishedClosures u = Two();
  REQUIRE(u.List().size() == 2);
  CHECK(u.List()[0].id == 12);
  CHECK(u.List()[1].steps == 2);
  CHECK(u.Find(11) == nullptr);  // an id is not a place
  REQUIRE(u.Find(30) != nullptr);
  const auto taken = u.Take(30);
  REQUIRE(taken.has_value());
  CHECK(taken->closure.id == 11);
  CHECK(taken->attempt == 5);
  CHECK(taken->min_attempt == 2);
  CHECK(taken->holder == -1);
  CHECK(!u.Take(30).has_value());
  CHECK(u.OnResult(ResultOf(11, 5)) == Outcome::kUnknown);  // whoever scheduled it wants it
  CHECK(u.List().size() == 1);
  u.Clear();
  CHECK(u.List().empty());
}

TEST_CASE("closures whose ids were only reserved have not begun") {
  UnfinishedClosures unfinished;
  CHECK(unfinished.first_place() == UINT64_MAX);
  for (const uint64_t place : {3, 4, 5}) {
    unfinished.Add({.closure = {.id = 10 + place, .place = place}, .attempt = 1});
  }
  unfinished.NoteNotBegunFrom(4);
  CHECK(unfinished.any_begun());
  CHECK(unfinished.first_place() == 3);
  CHECK(unfinished.Take(3)->begun);
  CHECK_FALSE(unfinished.any_begun());
  CHECK_FALSE(unfinished.Take(4)->begun);
  CHECK(unfinished.first_place() == 5);
}

TEST_CASE("a holder is known until the result comes, or it is released or taken up") {
  UnfinishedClosures u = Two();
  CHECK(!u.held());
  REQUIRE(u.Hold(11, 0, 4));
  REQUIRE(u.Hold(12, 1, 3));
  CHECK(u.HeldBy(0) == std::vector<uint64_t>{11});
  CHECK(u.HeldBy(1) == std::vector<uint64_t>{12});
  CHECK(u.OnResult(ResultOf(11, 3, 1)) == Outcome::kFailed);  // an old attempt
  CHECK(u.HeldBy(0).size() == 1);
  CHECK(u.OnResult(ResultOf(11, 4, 1)) == Outcome::kFailed);
  CHECK(u.HeldBy(0).empty());
  CHECK(u.held());
  u.Release(1);
  CHECK(!u.held());
}

TEST_CASE("a result that comes before its Schedule waits for it") {
  UnfinishedClosures u = Two();
  CHECK(u.OnResult(ResultOf(11, 4)) == Outcome::kFinished);
  CHECK(u.Find(30) == nullptr);
  CHECK(u.OnResult(ResultOf(11, 4)) == Outcome::kUnknown);  // reported twice
  CHECK(!u.TakeEarly(20).has_value());
  const auto early = u.TakeEarly(30);
  REQUIRE(early.has_value());
  CHECK(early->id() == 11);
  CHECK(early->attempt() == 4);
  CHECK(!u.TakeEarly(30).has_value());

  SECTION("and is void after a rollback") {
    CHECK(u.OnResult(ResultOf(12, 2)) == Outcome::kFinished);
    u.Clear();
    CHECK(!u.TakeEarly(20).has_value());
  }
}

TEST_CASE("attempts of an older timeline, or that were never given out, are not wanted") {
  UnfinishedClosures u = Two();
  CHECK(u.OnResult(ResultOf(11, 1)) == Outcome::kUnknown);
  CHECK(u.OnResult(ResultOf(11, 6)) == Outcome::kUnknown);
  CHECK(!u.Hold(11, 0, 1));
  CHECK(!u.Hold(11, 0, 6));
  CHECK(!u.Hold(13, 0, 5));
  CHECK(u.List().size() == 2);
}

TEST_CASE("who has one in hand is known until it fails there or the worker is gone") {
  UnfinishedClosures u = Two();
  REQUIRE(u.Hold(11, 1, 4));
  REQUIRE(u.Hold(12, 2, 5));
  SECTION("it is scheduled again: its worker continues it") {
    const auto taken = u.Take(30);
    REQUIRE(taken.has_value());
    CHECK(taken->holder == 1);
    CHECK(taken->held_attempt == 4);
  }
  SECTION("its attempt fails") {
    CHECK(u.OnResult(ResultOf(11, 4, 10)) == Outcome::kFailed);
    CHECK(u.Find(30)->holder == -1);
    CHECK(u.Find(20)->holder == 2);
  }
  SECTION("an attempt fails that is not the one in hand") {
    CHECK(u.OnResult(ResultOf(11, 3, 10)) == Outcome::kFailed);
    CHECK(u.Find(30)->holder == 1);
  }
  SECTION("the worker is gone") {
    u.Release(2);
    CHECK(u.Find(30)->holder == 1);
    CHECK(u.Find(20)->holder == -1);
  }
}

}  // namespace
}  // namespace cohort
