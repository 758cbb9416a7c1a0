#include "chief/core/settlement.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "chief/core/closure_scheduler.h"
#include "chief/core/core_test_world.h"
#include "chief/core/recovery_test_util.h"
#include "common/base/status.h"

namespace cohort {
namespace {

v1::ClosureResult ResultOf(double total) {
  v1::ClosureResult result;
  result.set_steps(1);
  v1::MetricValue* metric = result.add_metrics();
  metric->set_name("loss");
  metric->set_total(total);
  metric->set_count(1);
  return result;
}

struct Parts {
  Parts() : world(1, 1), outbox(&world) {}
  TestWorld world;
  Outbox outbox;
};

TEST_CASE("settling out of order: the watermark waits, records list what lies above it") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Reset(1, 1, {});
  CHECK(s.Finish(2, true, ResultOf(2)));
  CHECK(s.Finish(4, true, ResultOf(4)));
  CHECK(!s.Finish(2, true, ResultOf(2)));  // folded once
  CHECK(s.metrics().at("loss").Scalar(kTotal) == 6);
  CHECK(s.watermark() == 1);
  s.Tick(1'000'000);
  REQUIRE(p.world.writing.size() == 1);
  CHECK(p.world.writing[0].settle().watermark() == 1);
  CHECK(p.world.writing[0].settle().finished_size() == 2);

  CHECK(s.Finish(1, true, ResultOf(1)));
  CHECK(s.watermark() == 3);
  s.Tick(1'060'000);
  CHECK(p.world.writing.size() == 1);  // one record at a time
  s.OnJournaled(1);
  CHECK(!s.TakePublish());  // that record does not move the watermark
  s.Tick(1'060'000);
  REQUIRE(p.world.writing.size() == 2);
  CHECK(p.world.writing[1].settle().watermark() == 3);
  CHECK(p.world.writing[1].settle().finished_size() == 0);  // 4 was listed before
  CHECK(s.durable_watermark() == 1);
  s.OnJournaled(2);
  CHECK(s.TakePublish());
  CHECK(!s.TakePublish());
  CHECK(s.durable_watermark() == 3);
  CHECK(s.DoneAbove() == std::vector<uint64_t>{4});
}

TEST_CASE("a close that is repeated limits the watermark until it is done") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Reset(5, 5, {});
  s.LimitPublished(3);
  CHECK(!s.TakePublish());
  CHECK(s.durable_watermark() == 3);
  s.Finish(5, true, ResultOf(5));
  s.Tick(1'000'000);
  CHECK(p.world.writing.empty());
  s.LimitPublished(Settlement::kNoLimit);
  CHECK(s.TakePublish());
  CHECK(s.durable_watermark() == 5);
  s.Tick(1'000'000);
  CHECK(p.world.writing.size() == 1);
}

TEST_CASE("a metric with vectors is folded once per closure, and survives a cut") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Reset(1, 1, {});
  v1::ClosureResult result;
  result.set_steps(1);
  v1::MetricValue* metric = result.add_metrics();
  metric->set_name("range");
  metric->mutable_finalizer()->set_class_name("AUC");
  for (const auto& [name, reduction] :
       {std::pair{"counts", v1::REDUCE_SUM}, std::pair{"most", v1::REDUCE_MAX}}) {
    v1::AccumulatorValue* a = metric->add_accumulators();
    a->set_name(name);
    a->set_reduction(reduction);
    a->add_values(1);
    a->add_values(3);
  }
  CHECK(s.Finish(1, true, result));
  CHECK(!s.Finish(1, true, result));
  result.mutable_metrics(0)->mutable_accumulators(1)->set_values(0, 7);
  CHECK(s.Finish(2, true, result));
  const auto check = [](const MetricState& state) {
    REQUIRE(state.accumulators.size() == 2);
    CHECK(state.finalizer->class_name() == "AUC");
    CHECK(state.accumulators[0].values == std::vector<double>{2, 6});
    CHECK(state.accumulators[1].values == std::vector<double>{7, 3});
  };
  check(s.metrics().at("range"));
  v1::ChiefCut cut;
  s.Fill(&cut);
  Settlement restored(&p.outbox, 50'000);
  restored.SetFoldedFrom(cut, /*epoch=*/0);
  check(restored.metrics().at("range"));
}

TEST_CASE("losses that are infinite or no number are counted, with the step of the first") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Reset(1, 1, {});
  CHECK(s.Finish(1, true, ResultOf(1)));
  CHECK(s.Finish(2, false, ResultOf(NAN)));  // an evaluation's are not the training's
  v1::ClosureResult metric = ResultOf(1);
  *metric.add_metrics() = ResultOf(NAN).metrics(0);
  metric.mutable_metrics(1)->set_name("r");  // says nothing about the weights
  CHECK(s.Finish(5, true, std::move(metric)));
  CHECK(s.counters().not_finite == 0);
  CHECK(s.Finish(3, true, ResultOf(HUGE_VAL)));
  CHECK(s.Finish(4, true, ResultOf(NAN)));
  CHECK(!s.Finish(4, true, ResultOf(NAN)));
  CHECK(s.counters().not_finite == 2);
  CHECK(s.counters().first_not_finite_step == 3);
}

TEST_CASE("records come at most once per interval, or when forced") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Finish(1, true, ResultOf(1));
  s.Tick(1'000'000);
  s.OnJournaled(1);
  s.Finish(2, true, ResultOf(1));
  s.Tick(1'049'000);
  CHECK(p.world.writing.size() == 1);
  s.Tick(1'049'000, /*force=*/true);
  CHECK(p.world.writing.size() == 2);
  s.Tick(1'200'000);
  CHECK(p.world.writing.size() == 2);  // nothing has changed
}

TEST_CASE("after a rollback all but the pending ids are done") {
  Parts p;
  Settlement s(&p.outbox, 50'000);
  s.Reset(5, 100, {5, 9});
  CHECK(s.watermark() == 5);
  CHECK(s.IsDone(6));
  CHECK(!s.IsDone(9));
  CHECK(!s.IsDone(100));
  s.Finish(5, true, ResultOf(1));
  CHECK(s.watermark() == 9);
  s.Finish(9, true, ResultOf(1));
  CHECK(s.watermark() == 100);
}

TEST_CASE("ids mean their places, and a change of kind gives the rest of a block up") {
  Parts p;
  IdAllocator ids(&p.outbox);
  ids.Reset(1, 1);
  CHECK(ids.Next({.by_job = true, .place = 0, .steps = 10, .places_end = 45}) == 1);
  REQUIRE(!p.world.writing.empty());
  const v1::ReserveClosures& block = p.world.writing[0].reserve();
  CHECK(block.count() == 5);  // the last one is short
  CHECK(block.max_places() == 45);
  CHECK(ids.durable_end() == 1);
  CHECK(ids.OnJournaled(1));
  CHECK(ids.durable_end() == 6);
  CHECK(ids.Next({.by_job = true, .place = 10, .steps = 10, .places_end = 45}) == 2);
  // Not of the job runner: another block.
  CHECK(ids.Next({}) == 6);
  CHECK(ids.TakeGivenUp() == std::vector<std::pair<uint64_t, uint64_t>>{{3, 6}});
  // Back at place 20.
  const uint64_t id = ids.Next({.by_job = true, .place = 20, .steps = 10, .places_end = 45});
  CHECK(id > 6);
  CHECK(p.world.writing.back().reserve().first_place() == 20);

  SECTION("the journal agrees: places that were reserved twice belong to the later id") {
    std::vector<v1::JournalRecord> records;
    v1::JournalRecord start;
    start.set_number(1);
    start.mutable_rollback()->set_timeline(1);
    records.push_back(start);
    for (v1::JournalRecord r : p.world.writing) {
      r.set_number(records.size() + 1);
      records.push_back(r);
    }
    const auto state = Recover(records, nullptr);
    REQUIRE(state.ok());
    REQUIRE(state->unfinished.size() == 5);
    CHECK(state->unfinished[0].id == 1);
    CHECK(state->unfinished[2].id == id);
    CHECK(state->unfinished[2].place == 20);
    CHECK(state->unfinished[4].steps == 5);
    CHECK(state->next_place == 45);
  }
}

TEST_CASE("blocks are reserved ahead of use") {
  Parts p;
  IdAllocator ids(&p.outbox);
  ids.Reset(1, 1);
  const uint64_t end = 3 * IdAllocator::kBlock;
  for (uint64_t i = 0; i < IdAllocator::kBlock / 2; ++i) {
    ids.Next({.by_job = true, .place = i, .steps = 1, .places_end = end});
  }
  CHECK(p.world.writing.size() == 2);
  CHECK(ids.reserved_end() == 1 + 2 * IdAllocator::kBlock);
  for (uint64_t i = IdAllocator::kBlock / 2; i < end; ++i) {
    CHECK(ids.Next({.by_job = true, .place = i, .steps = 1, .places_end = end}) == i + 1);
  }
  CHECK(ids.reserved_end() == end + 1);
  CHECK(ids.TakeGivenUp().empty());
}

TEST_CASE("a journal that makes no sense is refused") {
  std::vector<v1::JournalRecord> records(2);
  records[0].set_number(2);
  records[0].mutable_settle();
  records[1].set_number(1);
  records[1].mutable_settle();
  CHECK(absl::IsDataLoss(Recover(records, nullptr).status()));
  records[1].set_number(3);
  records[1].clear_body();
  CHECK(absl::IsDataLoss(Recover(records, nullptr).status()));
}

}  // namespace
}  // namespace cohort
