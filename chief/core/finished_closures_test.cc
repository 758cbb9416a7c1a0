#include "chief/core/finished_closures.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("a few finished closures are a list, and many are ranges") {
  v1::ChiefCut cut;
  cut.set_settled_watermark(10);
  SetFinished({12, 14, 15}, &cut);
  CHECK(cut.finished_size() == 3);
  CHECK(cut.finished_ranges().empty());
  CHECK(FinishedOf(cut) == std::vector<uint64_t>{12, 14, 15});
  for (const uint64_t id : {9, 12, 14, 15}) CHECK(IsFinished(cut, id));
  for (const uint64_t id : {10, 11, 13, 16}) CHECK(!IsFinished(cut, id));

  std::vector<uint64_t> ids;
  for (uint64_t id = 11; id < 300; ++id) {
    if (id != 100 && id != 101) ids.push_back(id);
  }
  SetFinished(ids, &cut);
  CHECK(cut.finished().empty());
  CHECK(cut.finished_ranges_size() == 2);
  CHECK(FinishedOf(cut) == ids);
  for (const uint64_t id : {9, 11, 99, 102, 299}) CHECK(IsFinished(cut, id));
  for (const uint64_t id : {10, 100, 101, 300}) CHECK(!IsFinished(cut, id));
}

TEST_CASE("an applied set keeps only the ids of closures that are under way") {
  v1::ChiefCut cut;
  cut.set_settled_watermark(10);
  SetFinished({12}, &cut);
  v1::AppliedSetProto applied;
  for (const uint64_t closure : {9, 11, 12, 12, 13}) applied.add_applied()->set_closure(closure);
  DropFinished(cut, &applied);
  REQUIRE(applied.applied_size() == 2);
  CHECK(applied.applied(0).closure() == 11);
  CHECK(applied.applied(1).closure() == 13);
}

}  // namespace
}  // namespace cohort
