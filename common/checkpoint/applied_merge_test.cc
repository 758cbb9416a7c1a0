#include "common/checkpoint/applied_merge.h"

#include <catch2/catch.hpp>

#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

v1::AppliedSetProto Set(uint64_t watermark, std::vector<std::pair<uint64_t, uint64_t>> closed,
                        std::vector<std::pair<uint64_t, uint32_t>> applied) {
  v1::AppliedSetProto set;
  set.set_watermark(watermark);
  for (const auto& [begin, end] : closed) {
    v1::ClosureRange* range = set.add_closed();
    range->set_begin(begin);
    range->set_end(end);
  }
  for (const auto& [closure, ordinal] : applied) {
    v1::UpdateId* id = set.add_applied();
    id->set_closure(closure);
    id->set_ordinal(ordinal);
  }
  return set;
}

std::string Text(const v1::AppliedSetProto& set) {
  std::string text = std::to_string(set.watermark()) + ":";
  for (const auto& range : set.closed()) {
    text += " [" + std::to_string(range.begin()) + "," + std::to_string(range.end()) + ")";
  }
  for (const auto& id : set.applied()) {
    text += " " + std::to_string(id.closure()) + "." + std::to_string(id.ordinal());
  }
  return text;
}

TEST_CASE("one source keeps its own ids, whatever its neighbours have") {
  v1::ChiefCut chief;
  const auto own = Set(10, {}, {{12, 0}, {12, 1}, {14, 0}});
  const v1::AppliedSetProto* sources[] = {&own};
  const RestoredTablet restored = MergeApplied(sources, chief);
  CHECK(Text(*restored.applied) == "10: 12.0 12.1 14.0");
  CHECK(restored.partially_applied == 0);
}

TEST_CASE("what the chief knows as finished is closed on every tablet") {
  v1::ChiefCut chief;
  chief.set_settled_watermark(12);
  chief.add_finished(13);
  chief.add_finished(14);
  chief.add_finished(17);
  const auto own = Set(10, {{5, 11}, {14, 16}}, {{11, 0}, {13, 0}, {16, 0}});
  const v1::AppliedSetProto* sources[] = {&own};
  CHECK(Text(*MergeApplied(sources, chief).applied) == "12: [13,16) [17,18) 16.0");
  chief.clear_finished();
  for (const auto& [begin, end] : {std::pair(13, 15), std::pair(17, 18)}) {
    v1::ClosureRange* const range = chief.add_finished_ranges();
    range->set_begin(static_cast<uint64_t>(begin));
    range->set_end(static_cast<uint64_t>(end));
  }
  CHECK(Text(*MergeApplied(sources, chief).applied) == "12: [13,16) [17,18) 16.0");
}

TEST_CASE("a drained cut merges without loss") {
  v1::ChiefCut chief;
  chief.set_settled_watermark(100);
  // Tablets hear of the watermark at different times, and hold what cancelled closures left.
  const auto a = Set(90, {}, {{91, 0}, {95, 0}});
  const auto b = Set(100, {}, {});
  const v1::AppliedSetProto* sources[] = {&a, &b};
  const RestoredTablet restored = MergeApplied(sources, chief);
  CHECK(Text(*restored.applied) == "100:");
  CHECK(restored.partially_applied == 0);
}

TEST_CASE("an update that only some rows have counts as applied and is reported") {
  v1::ChiefCut chief;
  chief.set_settled_watermark(10);
  const auto a = Set(10, {}, {{11, 0}, {12, 0}, {12, 0}});
  const auto b = Set(10, {}, {{11, 0}, {13, 2}});
  const v1::AppliedSetProto* sources[] = {&a, &b};
  const RestoredTablet restored = MergeApplied(sources, chief);
  CHECK(Text(*restored.applied) == "10: 11.0 12.0 13.2");
  CHECK(restored.partially_applied == 2);
}

v1::PendingClosure* AddPending(v1::ChiefCut* chief, uint64_t id, uint32_t steps) {
  v1::PendingClosure* pending = chief->add_pending();
  pending->set_id(id);
  pending->set_steps(steps);
  return pending;
}

// It was finished after the snapshot of one source and before that of the other.
TEST_CASE("a pending closure that is settled on some sources is lost to the others' rows") {
  v1::ChiefCut chief;
  chief.set_settled_watermark(10);
  AddPending(&chief, 11, 2);
  AddPending(&chief, 12, 1);
  AddPending(&chief, 14, 1);
  AddPending(&chief, 15, 1);
  const auto late = Set(13, {{14, 15}}, {});
  const auto early = Set(10, {}, {{11, 0}});
  SECTION("merged") {
    const v1::AppliedSetProto* sources[] = {&late, &early};
    const RestoredTablet restored = MergeApplied(sources, chief);
    CHECK(Text(*restored.applied) == "13: [14,15)");
    CHECK(restored.partially_applied == 3);  // 11.1, 12.0, 14.0
  }
  SECTION("each alone has what it has, and its retry does the rest") {
    const v1::AppliedSetProto* one[] = {&late};
    CHECK(MergeApplied(one, chief).partially_applied == 0);
    const v1::AppliedSetProto* other[] = {&early};
    const RestoredTablet restored = MergeApplied(other, chief);
    CHECK(Text(*restored.applied) == "10: 11.0");
    CHECK(restored.partially_applied == 0);
  }
}

void AddShard(v1::Layout* layout, uint32_t variable, uint64_t begin, uint64_t rows,
              uint32_t tablet) {
  v1::ShardSpec* shard = layout->add_shards();
  shard->set_variable(variable);
  shard->set_row_begin(begin);
  shard->set_rows(rows);
  shard->set_tablet(tablet);
}

TEST_CASE("a tablet of a new layout starts from the tablets that held its rows") {
  v1::Manifest manifest;
  for (v1::Layout* layout : {manifest.mutable_layout()}) {
    layout->add_variables()->set_name("a");
    layout->add_variables()->set_name("b");
  }
  AddShard(manifest.mutable_layout(), 0, 0, 5, 0);
  AddShard(manifest.mutable_layout(), 0, 5, 5, 1);
  AddShard(manifest.mutable_layout(), 1, 0, 4, 2);
  for (uint32_t tablet = 0; tablet < 3; ++tablet) {
    v1::TabletCut* cut = manifest.add_tablets();
    cut->set_tablet(tablet);
    cut->set_version(100 + tablet);
    *cut->mutable_applied() = Set(10, {}, {{20 + tablet, 0}});
  }
  // The new layout lists the variables in another order.
  v1::Layout target;
  target.add_variables()->set_name("b");
  target.add_variables()->set_name("a");
  AddShard(&target, 1, 0, 6, 0);
  AddShard(&target, 1, 6, 4, 1);
  AddShard(&target, 0, 0, 4, 2);
  const auto first = RestoreTablet(manifest, target, 0);
  REQUIRE(first.ok());
  CHECK(first->source_tablets == std::vector<uint32_t>{0, 1});
  CHECK(first->version == 101);
  CHECK(first->partially_applied == 2);
  const auto second = RestoreTablet(manifest, target, 1);
  REQUIRE(second.ok());
  CHECK(second->source_tablets == std::vector<uint32_t>{1});
  CHECK(Text(*second->applied) == "10: 21.0");
  CHECK(RestoreTablet(manifest, target, 2)->source_tablets == std::vector<uint32_t>{2});
  CHECK(RestoreTablet(manifest, target, 9)->source_tablets.empty());
  // Each shard of a variable has some of its rows if another layout shares them by hash.
  v1::Layout hashed = target;
  hashed.mutable_variables(1)->set_hashed_rows(true);
  for (const uint32_t tablet : {0U, 1U}) {
    CHECK(RestoreTablet(manifest, hashed, tablet)->source_tablets == std::vector<uint32_t>{0, 1});
  }
  CHECK(RestoreTablet(manifest, hashed, 2)->source_tablets == std::vector<uint32_t>{2});
  manifest.mutable_layout()->mutable_variables(0)->set_hashed_rows(true);
  CHECK(RestoreTablet(manifest, hashed, 1)->source_tablets == std::vector<uint32_t>{1});
  manifest.mutable_layout()->mutable_variables(0)->set_hashed_rows(false);
  manifest.mutable_tablets(2)->set_tablet(1);
  CHECK(absl::IsDataLoss(RestoreTablet(manifest, target, 2).status()));
  manifest.mutable_tablets()->RemoveLast();
  CHECK(absl::IsDataLoss(RestoreTablet(manifest, target, 2).status()));
}

}  // namespace
}  // namespace cohort
