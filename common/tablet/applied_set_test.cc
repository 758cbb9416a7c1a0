#include "common/tablet/applied_set.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

using State = AppliedSet::State;

// The plainest model that AppliedSet must agree with.
class NaiveSet {
 public:
  State Find(UpdateKey id) const {
    if (id.closure < watermark_) return State::kSettled;
    for (const auto& [begin, end] : closed_) {
      if (id.closure >= begin && id.closure < end) return State::kSettled;
    }
    return applied_.count({id.closure, id.ordinal}) != 0 ? State::kApplied : State::kNew;
  }
  void Insert(UpdateKey id) { applied_.insert({id.closure, id.ordinal}); }
  void AdvanceWatermark(uint64_t watermark) { watermark_ = std::max(watermark_, watermark); }
  void Close(uint64_t begin, uint64_t end) { closed_.push_back({begin, end}); }

 private:
  uint64_t watermark_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> closed_;
  std::set<std::pair<uint64_t, uint32_t>> applied_;
};

// Both sets agree about every id around [0, limit).
void CheckEqual(const AppliedSet& set, const NaiveSet& naive, uint64_t limit, uint32_t ordinals) {
  for (uint64_t c = 0; c < limit; ++c) {
    for (uint32_t o = 0; o < ordinals; ++o) {
      INFO("closure " << c << " ordinal " << o);
      REQUIRE(static_cast<int>(set.Find({c, o})) == static_cast<int>(naive.Find({c, o})));
    }
  }
}

TEST_CASE("random operations agree with a naive set") {
  const unsigned seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const uint32_t ordinals = seed % 2 == 0 ? 1 : 130;
  const uint64_t spread = 3000;
  AppliedSet set;
  NaiveSet naive;
  uint64_t base = 0;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t what = random() % 1000;
    const UpdateKey id{base + random() % spread, static_cast<uint32_t>(random() % ordinals)};
    if (what < 3) {
      base += random() % 200;
      set.AdvanceWatermark(base);
      naive.AdvanceWatermark(base);
    } else if (what == 3) {
      const uint64_t end = id.closure + random() % 50;
      set.Close(id.closure, end);
      naive.Close(id.closure, end);
    } else {
      REQUIRE(set.Check(id).ok());
      REQUIRE(static_cast<int>(set.Find(id)) == static_cast<int>(naive.Find(id)));
      if (set.Find(id) == State::kNew) {
        set.Insert(id, 7);
        naive.Insert(id);
        REQUIRE(set.AttemptOf(id) == 7u);
      }
    }
  }
  CheckEqual(set, naive, base + spread + 100, std::min(ordinals, 5u));

  v1::AppliedSetProto proto;
  set.ToProto(&proto);
  AppliedSet restored;
  REQUIRE(restored.Merge(proto).ok());
  CheckEqual(restored, naive, base + spread + 100, std::min(ordinals, 5u));
  v1::AppliedSetProto again;
  restored.ToProto(&again);
  CHECK(again.SerializeAsString() == proto.SerializeAsString());
}

TEST_CASE("ordinals of one closure are ids of their own") {
  AppliedSet set;
  for (uint32_t o = 0; o < 100; ++o) {
    CHECK(set.Find({5, o}) == State::kNew);
    set.Insert({5, o}, 1);
    CHECK(set.Find({5, o}) == State::kApplied);
    CHECK(set.Find({6, o}) == State::kNew);
  }
  set.AdvanceWatermark(6);
  CHECK(set.Find({5, 3}) == State::kSettled);
}

TEST_CASE("a slot of the ring that the watermark passed is empty for the next closure") {
  AppliedSet set;
  for (uint64_t c = 0; c < 10000; ++c) {
    REQUIRE(set.Find({c, 0}) == State::kNew);
    set.Insert({c, 0}, 0);
    if (c >= 10) set.AdvanceWatermark(c - 10);
  }
  CHECK(set.window_bytes() == 1024 / 8);
}

TEST_CASE("the watermark may jump over the whole window") {
  AppliedSet set;
  set.Insert({3, 0}, 0);
  set.AdvanceWatermark(1u << 30);
  CHECK(set.Find({3, 0}) == State::kSettled);
  CHECK(set.Find({(1u << 30) + 3, 0}) == State::kNew);
  set.AdvanceWatermark(5);
  CHECK(set.watermark() == 1u << 30);
}

TEST_CASE("closed ranges are settled, and let the watermark pass") {
  AppliedSet set;
  set.Insert({12, 0}, 0);
  set.Close(10, 20);
  set.Close(20, 30);
  CHECK(set.Find({9, 0}) == State::kNew);
  CHECK(set.Find({12, 0}) == State::kSettled);
  CHECK(set.Find({29, 0}) == State::kSettled);
  CHECK(set.Find({30, 0}) == State::kNew);
  set.AdvanceWatermark(10);
  CHECK(set.watermark() == 30);
}

TEST_CASE("hostile ids get an error and cost nothing") {
  AppliedSet set;
  CHECK(set.Check({uint64_t{1} << 60, 0}).code() == absl::StatusCode::kResourceExhausted);
  CHECK(set.Check({~uint64_t{0}, ~0u}).code() == absl::StatusCode::kResourceExhausted);
  CHECK(set.Check({1, 1u << 16}).code() == absl::StatusCode::kResourceExhausted);
  CHECK(set.Check({1u << 20, 1000}).code() == absl::StatusCode::kResourceExhausted);
  CHECK(set.Check({1u << 20, 0}).ok());
  CHECK(set.Find({~uint64_t{0}, ~0u}) == State::kNew);
  CHECK(set.window_bytes() == 1024 / 8);
  set.AdvanceWatermark(~uint64_t{0});
  CHECK(set.Find({5, 0}) == State::kSettled);
  CHECK(set.Check({~uint64_t{0}, 0}).ok());

  v1::AppliedSetProto proto;
  proto.add_applied()->set_closure(uint64_t{1} << 50);
  CHECK(AppliedSet().Merge(proto).code() == absl::StatusCode::kResourceExhausted);
  v1::AppliedSetProto backwards;
  backwards.add_closed()->set_begin(5);
  CHECK(AppliedSet().Merge(backwards).code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("ids that are each within the limits are refused where the window of both is not") {
  constexpr uint64_t kWatermark = 100;
  constexpr uint64_t kMaxBytes = (uint64_t{1} << 27) / 8;
  const UpdateKey far{kWatermark + (1u << 27) - 1, 0};
  const UpdateKey many{kWatermark, 65535};
  AppliedSet set;
  set.AdvanceWatermark(kWatermark);
  SECTION("the far one first") {
    REQUIRE(set.Check(far).ok());
    set.Insert(far, 1);
    CHECK(set.Check(many).code() == absl::StatusCode::kResourceExhausted);
    CHECK(set.Check({kWatermark, 0}).ok());
    // What the watermark has passed costs nothing any more.
    set.AdvanceWatermark(far.closure + 1);
    const UpdateKey later{far.closure + 1, 65535};
    REQUIRE(set.Check(later).ok());
    set.Insert(later, 1);
    CHECK(set.Find(later) == State::kApplied);
  }
  SECTION("the high ordinal first") {
    REQUIRE(set.Check(many).ok());
    set.Insert(many, 1);
    CHECK(set.Check(far).code() == absl::StatusCode::kResourceExhausted);
  }
  CHECK(set.window_bytes() <= kMaxBytes);
}

TEST_CASE("attempts are remembered of recent ids only, never wrongly") {
  AppliedSet set;
  for (uint64_t c = 0; c < 100000; ++c) {
    set.Insert({c, 0}, static_cast<uint32_t>(c % 7));
    set.AdvanceWatermark(c);
  }
  int known = 0;
  for (uint64_t c = 0; c < 100000; ++c) {
    const auto attempt = set.AttemptOf({c, 0});
    if (!attempt.has_value()) continue;
    ++known;
    REQUIRE(*attempt == c % 7);
  }
  CHECK(known > 1000);
  CHECK(known <= 4096);
  CHECK(set.AttemptOf({99999, 0}).has_value());
}

}  // namespace
}  // namespace cohort
