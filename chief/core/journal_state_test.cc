#include "chief/core/journal_state.h"

#include <catch2/catch.hpp>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

absl::StatusOr<v1::Manifest> NoManifest(const std::string& path) { return NotFound("{}", path); }

class Records {
 public:
  v1::JournalRecord& Add() {
    all.emplace_back();
    all.back().set_number(all.size());
    return all.back();
  }
  void Start(uint64_t generation) { Add().mutable_start()->set_generation(generation); }
  void RollBack(uint64_t timeline, const std::string& manifest = "") {
    v1::Rollback* rollback = Add().mutable_rollback();
    rollback->set_timeline(timeline);
    rollback->set_manifest(manifest);
    rollback->set_layout_hash(7);
  }
  void Reserve(uint64_t first_id, uint64_t count, uint64_t place, uint32_t steps, uint64_t end) {
    v1::ReserveClosures* block = Add().mutable_reserve();
    block->set_first_id(first_id);
    block->set_count(count);
    block->set_timeline(1);
    block->set_first_place(place);
    block->set_steps(steps);
    block->set_by_job(true);
    block->set_max_places(end);
  }
  v1::Settle* Settle(uint64_t watermark) {
    v1::Settle* settle = Add().mutable_settle();
    settle->set_watermark(watermark);
    return settle;
  }
  void ApplyAll(JournalState* state) const {
    for (const v1::JournalRecord& record : all) REQUIRE(state->Apply(record).ok());
  }
  std::vector<v1::JournalRecord> all;
};

TEST_CASE("a state without records has no base") {
  CHECK(!JournalState(NoManifest).Base().has_value());
}

TEST_CASE("a base keeps open closures as runs of ids") {
  Records records;
  records.Start(1);
  records.RollBack(1);
  records.Reserve(1, 4096, 0, 10, 40'955);  // the last closure is short
  v1::Settle* settle = records.Settle(100);
  settle->add_finished(200);
  records.all[2].mutable_counters()->set_workers_lost(3);
  JournalState state(NoManifest);
  records.ApplyAll(&state);
  const auto base = state.Base();
  REQUIRE(base.has_value());
  CHECK(base->number() == 4);
  REQUIRE(base->base().open_size() == 3);  // 100 to 199, 201 to 4095, 4096
  CHECK(base->base().open(0).first_id() == 100);
  CHECK(base->base().open(0).count() == 100);
  CHECK(base->base().open(1).first_place() == 2000);
  CHECK(base->base().open(2).steps() == 5);
  CHECK(base->ByteSizeLong() < 150);

  JournalState again(NoManifest);
  REQUIRE(again.Apply(*base).ok());
  const auto recovered = again.Recover("");
  REQUIRE(recovered.ok());
  CHECK(recovered->unfinished.size() == 3996);
  CHECK(recovered->watermark == 100);
  CHECK(recovered->next_record == 5);
  CHECK(recovered->layout_hash == 7);
  CHECK(recovered->counters.workers_lost() == 3);
}

TEST_CASE("a base of as many scattered closures as can be open is small beside a segment") {
  Records records;
  records.Start(1);
  records.RollBack(1);
  constexpr uint64_t kOpen = 262'144;  // CoreOptions::max_ids_ahead
  records.Reserve(1'000'000, kOpen, 30'000'000, 32, 1'000'000'000);
  v1::Settle* settle = records.Settle(1'000'000);
  for (uint64_t i = 1; i < kOpen; i += 2) settle->add_finished(1'000'000 + i);
  JournalState state(NoManifest);
  records.ApplyAll(&state);
  CHECK(state.Base()->ByteSizeLong() < 2'000'000);
}

TEST_CASE("there is no base while a rollback's manifest is missing, and a base needs none later") {
  Records records;
  records.Start(1);
  records.RollBack(1, "gone");
  v1::CutCommitted* cut = records.Add().mutable_cut();
  cut->set_cut(4);
  cut->set_timeline(1);
  cut->set_manifest("later");
  v1::Manifest later;
  later.set_timeline(1);
  later.mutable_chief()->set_next_place(9);
  bool there = true;
  JournalState state([&](const std::string& path) -> absl::StatusOr<v1::Manifest> {
    if (there && path == "later") return later;
    return NotFound("{}", path);
  });
  REQUIRE(state.Apply(records.all[0]).ok());
  REQUIRE(state.Apply(records.all[1]).ok());
  CHECK(!state.Base().has_value());
  REQUIRE(state.Apply(records.all[2]).ok());
  const auto base = state.Base();
  REQUIRE(base.has_value());
  there = false;
  JournalState again(NoManifest);
  REQUIRE(again.Apply(*base).ok());
  CHECK(again.Recover("")->steps == 9);
  CHECK(again.Recover("")->next_cut == 5);
}

TEST_CASE("a rollback moves the boundary of the mode to that of its cut") {
  Records records;
  records.Start(1);
  v1::ModeChange* mode = records.Add().mutable_mode();
  mode->set_mode("sync");
  mode->mutable_position()->set_open_step(4);
  mode->mutable_position()->set_next_place(31);
  mode->mutable_position()->set_iteration(25);
  records.RollBack(2, "cut");
  records.RollBack(3);
  v1::Manifest manifest;
  manifest.mutable_chief()->set_next_place(10);
  JournalState state([&](const std::string&) { return manifest; });
  for (int i = 0; i < 3; ++i) REQUIRE(state.Apply(records.all[static_cast<size_t>(i)]).ok());
  v1::StepPosition position = state.Recover("")->mode->position();
  CHECK(state.Recover("")->mode->mode() == "sync");
  CHECK(position.next_place() == 10);
  CHECK(position.open_step() == 1);
  CHECK(position.iteration() == 10);
  REQUIRE(state.Apply(records.all[3]).ok());  // to the initial state
  position = state.Recover("")->mode->position();
  CHECK(position.next_place() == 0);
  CHECK(position.open_step() == 1);
}

TEST_CASE("an unreadable manifest is an error") {
  Records records;
  records.Start(1);
  records.RollBack(1, "unreadable");
  JournalState state(
      [](const std::string&) -> absl::StatusOr<v1::Manifest> { return DataLoss("it is damaged"); });
  REQUIRE(state.Apply(records.all[0]).ok());
  CHECK(absl::IsDataLoss(state.Apply(records.all[1])));
}

}  // namespace
}  // namespace cohort
