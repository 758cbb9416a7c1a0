#include "common/tablet/staged_step.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/tablet/tablet_test_util.h"

namespace cohort {
namespace {

using namespace ps_test;

using Floats = std::vector<float>;

TestPush Staged(uint64_t closure, uint32_t index, uint64_t step = 1, uint64_t step_try = 1) {
  TestPush push(closure);
  push.header().step = {.step = step, .step_try = step_try, .index = index};
  return push;
}

// Closes a step and returns the closures whose pushes were applied.
std::vector<uint64_t> Close(TestTablet* tablet, uint64_t step, std::vector<uint32_t> members,
                            uint64_t step_try = 1) {
  PushEffect effect;
  std::vector<StagedStep::Member> applied;
  const absl::Status closed = (*tablet)->Close(
      {.step = step, .step_try = step_try, .iteration = step - 1, .members = std::move(members)},
      &effect, &applied);
  INFO(closed);
  REQUIRE(closed.ok());
  std::vector<uint64_t> closures;
  for (const StagedStep::Member& member : applied) closures.push_back(member.id.closure);
  return closures;
}

v1::SectionStatus PullOf(TestTablet* tablet, uint64_t step) {
  v1::PullResult result;
  std::vector<PayloadSlice> payload;
  PullEntryView entry;
  PullSectionView section;
  section.term = 1;
  section.entries = std::span(&entry, 1);
  (*tablet)->Pull(1, step, section, &result, &payload);
  return result.status();
}

TEST_CASE("a step's sum does not depend on the order of arrival, and equals one push of the sum") {
  const auto layout = Layout({Variable("w", {4}, 1), Variable("rows", {5, 2}, 1)}, Adam());
  const std::vector<Floats> dense = {{1e8f, 1, 2, 3}, {-1e8f, .1f, .2f, .3f}, {.5f, .7f, 1, 3}};
  const std::vector<std::vector<int64_t>> keys = {{4, 0}, {0, 1}, {4, 1}};
  const std::vector<Floats> rows = {{1e8f, 2, 3, 4}, {5, 6, 7, 8}, {-1e8f, .2f, .3f, .4f}};
  std::vector<uint32_t> order = {0, 1, 2};
  std::vector<std::pair<Floats, Floats>> results;
  const bool partial = GENERATE(false, true), sparse = GENERATE(false, true);
  do {
    TestTablet tablet(layout);
    for (const uint32_t i : order) {
      TestPush push = Staged(7 + i, i);
      push.header().step.partial = partial;
      push.header().weight = i + 1;
      push.Dense<float>(0, {dense[i][0]})
          .Dense<float>(0, {dense[i].begin() + 1, dense[i].end()}, 1);
      if (sparse) push.Sparse<float>(1, keys[i], rows[i]);
      CHECK(tablet.Push(push).status() == v1::STAGED);
      CHECK(tablet->version() == 0);
    }
    CHECK(tablet.Pull(0) == Floats(4, 1.0f));
    CHECK(Close(&tablet, 1, {0, 1, 2}) == std::vector<uint64_t>{7, 8, 9});
    CHECK(tablet->version() == 1);
    CHECK(tablet->open_step() == 2);
    results.emplace_back(tablet.Pull(0), tablet.Pull(1));
  } while (std::next_permutation(order.begin(), order.end()));
  TestTablet whole(layout);
  TestPush push(7);
  push.header().weight = 6;
  push.header().place = 0;
  Floats sum = dense[0];
  for (size_t i = 0; i < 4; ++i) sum[i] = dense[0][i] + dense[1][i] + dense[2][i];
  push.Dense<float>(0, sum);
  if (sparse) {
    push.Sparse<float>(1, {0, 1, 4}, {3 + 5, 4 + 6, 7 + .3f, 8 + .4f, 1e8f - 1e8f, 2 + .2f});
  }
  REQUIRE(whole.Push(push).status() == v1::APPLIED);
  for (const auto& [w, r] : results) {
    CHECK(w == whole.Pull(0));
    CHECK(r == whole.Pull(1));
  }
}

TEST_CASE("pushes of a step that come again, too late, or too early") {
  TestTablet tablet(Layout({Variable("w", {1}, 0)}, Sgd(1)));
  TestPush first = Staged(7, 0);
  first.Dense<float>(0, {1});
  CHECK(tablet.Push(first).status() == v1::STAGED);
  CHECK(tablet.Push(first).status() == v1::STAGED);
  TestPush other = Staged(8, 0);
  other.Dense<float>(0, {1});
  CHECK_THAT(tablet.Push(other).message(), Catch::Contains("both have index 0"));
  TestPush later = Staged(9, 0, 2);
  later.Dense<float>(0, {1});
  CHECK_THAT(tablet.Push(later).message(), Catch::Contains("step 1 is open"));
  CHECK(PullOf(&tablet, 1) == v1::APPLIED);
  CHECK(PullOf(&tablet, 2) == v1::LATER);
  CHECK(Close(&tablet, 1, {0}) == std::vector<uint64_t>{7});
  CHECK(tablet.Pull(0) == Floats{-1});
  CHECK(Close(&tablet, 1, {0}).empty());
  CHECK(tablet.Pull(0) == Floats{-1});
  CHECK(PullOf(&tablet, 1) == v1::DROPPED);
  CHECK(PullOf(&tablet, 2) == v1::APPLIED);
  CHECK(tablet.Push(first).status() == v1::DUPLICATE);
  CHECK(tablet.Push(other).status() == v1::DROPPED);
  // A step that no closure of this tablet is in.
  CHECK(Close(&tablet, 2, {0, 1}).empty());
  CHECK(tablet->version() == 1);
  CHECK(tablet->open_step() == 3);
}

TEST_CASE("an abandoned try leaves nothing, and takes nothing more") {
  TestTablet tablet(Layout({Variable("w", {1}, 0)}, Sgd(1)));
  TestPush old = Staged(7, 0);
  old.Dense<float>(0, {100});
  TestPush late = Staged(8, 1);
  late.Dense<float>(0, {100});
  CHECK(tablet.Push(old).status() == v1::STAGED);
  tablet->Abandon(1, 2);
  CHECK(tablet.Push(late).status() == v1::DROPPED);
  TestPush again = Staged(7, 0, 1, 2);
  again.Dense<float>(0, {1});
  CHECK(tablet.Push(again).status() == v1::STAGED);
  // The next try abandons this one by itself.
  TestPush third = Staged(8, 0, 1, 3);
  third.Dense<float>(0, {5});
  CHECK(tablet.Push(third).status() == v1::STAGED);
  CHECK(tablet.Push(again).status() == v1::DROPPED);
  PushEffect effect;
  std::vector<StagedStep::Member> applied;
  CHECK(absl::IsFailedPrecondition(
      tablet->Close({.step = 1, .step_try = 2, .members = {0}}, &effect, &applied)));
  CHECK(Close(&tablet, 1, {0}, 3) == std::vector<uint64_t>{8});
  CHECK(tablet.Pull(0) == Floats{-5});
}

TEST_CASE("a step may be closed without some of its closures") {
  TestTablet tablet(Layout({Variable("w", {1}, 0)}, Sgd(1)));
  for (uint32_t i = 0; i < 3; ++i) {
    TestPush push = Staged(7 + i, i);
    push.header().step.partial = true;
    push.Dense<float>(0, {static_cast<float>(1 << i)});
    CHECK(tablet.Push(push).status() == v1::STAGED);
  }
  CHECK(Close(&tablet, 1, {0, 2}) == std::vector<uint64_t>{7, 9});
  CHECK(tablet.Pull(0) == Floats{-2.5});
  TestPush dropped = Staged(8, 1);
  dropped.Dense<float>(0, {1});
  CHECK(tablet.Push(dropped).status() == v1::DROPPED);
}

TEST_CASE("a step adds what assign_add pushes, and averages moving averages once") {
  TestTablet tablet(Layout({Variable("count", {2}, 1), Variable("mean", {2}, 1)}, Sgd(1)));
  for (const uint32_t i : {1, 0}) {
    TestPush push = Staged(7 + i, i);
    push.Dense<float>(0, {1, 2}, 0, PushKind::kAssignAdd);
    push.Dense<float>(1, {static_cast<float>(i), 4}, 0, PushKind::kEma).last().momentum = 0.5;
    CHECK(tablet.Push(push).status() == v1::STAGED);
  }
  TestPush gradient = Staged(9, 2);
  gradient.Dense<float>(0, {1, 2});
  CHECK_THAT(tablet.Push(gradient).message(), Catch::Contains("pushed another kind"));
  CHECK(Close(&tablet, 1, {0, 1}).size() == 2);
  CHECK(tablet.Pull(0) == Floats{3, 5});
  CHECK(tablet.Pull(1) == Floats{0.75, 2.5});
}

TEST_CASE("a snapshot has nothing that is only staged") {
  TestTablet tablet(Layout({Variable("w", {1}, 0)}, Sgd(1)));
  TestPush push = Staged(7, 0);
  push.Dense<float>(0, {1});
  CHECK(tablet.Push(push).status() == v1::STAGED);
  const TabletSnapshot before = *tablet->Snapshot(0);
  CHECK(before.cut->applied().applied_size() == 0);
  CHECK(SnapshotValues(before.shards[0]) == Floats{0});
  Close(&tablet, 1, {0});
  const TabletSnapshot after = *tablet->Snapshot(0);
  CHECK(after.cut->applied().applied_size() == 1);
  CHECK(SnapshotValues(after.shards[0]) == Floats{-1});
}

v1::OptimizerSpec Clipping(const char* argument, double limit) {
  return OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)}, {argument, ConfigOf(limit)}});
}

// Two members of weights 1 and 3: the mean of "w" is {1.5, -0.5}, that of "rows" 2 at key 1.
void StageTwo(TestTablet* tablet) {
  for (const uint32_t i : {1, 0}) {
    TestPush push = Staged(7 + i, i);
    push.header().weight = i == 0 ? 1 : 3;
    push.Dense<float>(0, {3, -1}).Sparse<float>(1, {1}, {4});
    CHECK(tablet->Push(push).status() == v1::STAGED);
  }
}

absl::Status CloseWith(TestTablet* tablet, std::map<NormKey, double> norms) {
  PushEffect effect;
  std::vector<StagedStep::Member> applied;
  return (*tablet)->Close({.step = 1, .step_try = 1, .members = {0, 1}, .norms = std::move(norms)},
                          &effect, &applied);
}

TEST_CASE("a step clips each element of the mean gradient") {
  TestTablet tablet(
      Layout({Variable("w", {2}), Variable("rows", {3, 1})}, Clipping("clipvalue", 0.75)));
  StageTwo(&tablet);
  CHECK(CloseWith(&tablet, {}).ok());
  CHECK(tablet.Pull(0) == Floats{-0.75, 0.5});
  CHECK(tablet.Pull(1) == Floats{0, -0.75, 0});
}

TEST_CASE("a step is closed with the norms that its tablets have helped to compute") {
  const auto kind = GENERATE("clipnorm", "global_clipnorm");
  const bool global = std::string(kind) == "global_clipnorm";
  TestTablet tablet(Layout({Variable("w", {2}), Variable("rows", {3, 1})}, Clipping(kind, 1)));
  StageTwo(&tablet);
  const CloseOrder sum{.step = 1, .step_try = 1, .members = {0, 1}};
  SquareSums squares;
  REQUIRE(tablet->AddSquares(sum, &squares).ok());
  const SquareSums once = squares;
  REQUIRE(tablet->AddSquares(sum, &squares).ok());  // as another tablet would
  if (global) {
    REQUIRE(squares.size() == 1);
    CHECK(once.at({0, ""}).ToDouble() == 1.5 * 1.5 + 0.5 * 0.5 + 2 * 2);
    CHECK(squares.at({0, ""}).ToDouble() == 13);
  } else {
    REQUIRE(squares.size() == 2);
    CHECK(once.at({0, "w"}).ToDouble() == 2.5);
    CHECK(once.at({0, "rows"}).ToDouble() == 4);
  }
  CHECK(tablet->open_step() == 1);
  CHECK(absl::IsInvalidArgument(CloseWith(&tablet, {})));
  CHECK(tablet.Pull(0) == Floats{0, 0});
  CHECK(CloseWith(&tablet, global ? std::map<NormKey, double>{{{0, ""}, 4}}
                                  : std::map<NormKey, double>{{{0, "w"}, 2}, {{0, "rows"}, 0.5}})
            .ok());
  CHECK(tablet.Pull(0) == (global ? Floats{-0.375, 0.125} : Floats{-0.75, 0.25}));
  CHECK(tablet.Pull(1) == (global ? Floats{0, -0.5, 0} : Floats{0, -2, 0}));
}

TEST_CASE("a step that is skipped changes nothing, and its ids count as applied") {
  const auto kind = GENERATE("clipvalue", "global_clipnorm");
  TestTablet tablet(Layout({Variable("w", {2}), Variable("rows", {3, 1})}, Clipping(kind, 1)));
  StageTwo(&tablet);
  PushEffect effect;
  std::vector<StagedStep::Member> applied;
  REQUIRE(tablet
              ->Close({.step = 1, .step_try = 1, .members = {0, 1}, .norms = {}, .skip = true},
                      &effect, &applied)
              .ok());
  CHECK(applied.size() == 2);
  CHECK(!effect.non_finite);
  CHECK(tablet.Pull(0) == Floats{0, 0});
  CHECK(tablet.Pull(1) == Floats{0, 0, 0});
  CHECK(tablet->open_step() == 2);
  CHECK(PullOf(&tablet, 2) == v1::APPLIED);
  // Nothing of it is left in the next step.
  TestPush next = Staged(9, 0, /*step=*/2);
  next.Dense<float>(0, {0.5, 0.25});
  CHECK(tablet.Push(next).status() == v1::STAGED);
}

TEST_CASE("the squares of an abandoned try, and of a step that is not open, are refused") {
  TestTablet tablet(
      Layout({Variable("w", {2}), Variable("rows", {3, 1})}, Clipping("clipnorm", 1)));
  StageTwo(&tablet);
  SquareSums squares;
  CHECK(absl::IsFailedPrecondition(
      tablet->AddSquares({.step = 2, .step_try = 1, .members = {0}}, &squares)));
  tablet->Abandon(1, 2);
  CHECK(absl::IsFailedPrecondition(
      tablet->AddSquares({.step = 1, .step_try = 1, .members = {0}}, &squares)));
  CHECK(squares.empty());
}

// Replicas that sum dense gradients among themselves push only the sum, with one of their closures.
TEST_CASE("a step whose gradients are summed elsewhere needs the sum") {
  TestTablet tablet(Layout({Variable("w", {2}, 0), Variable("rows", {3, 1}, 0)}, Sgd(1)));
  const bool comes_early = GENERATE(false, true);
  const auto stage = [&](uint32_t index, bool sum) {
    TestPush push = Staged(7 + index, index);
    if (sum) {
      push.Dense<float>(0, {4, 8});
    } else {
      push.RecordOnly(0);
      push.last().summed_elsewhere = true;
    }
    push.Sparse<float>(1, {index}, {2});
    CHECK(tablet.Push(push).status() == v1::STAGED);
  };
  stage(comes_early ? 1 : 0, /*sum=*/false);
  PushEffect effect;
  std::vector<StagedStep::Member> applied;
  const CloseOrder close = {.step = 1, .step_try = 1, .members = {0, 1}};
  const absl::Status lacks = tablet->Close(close, &effect, &applied);
  CHECK(absl::IsInvalidArgument(lacks));
  CHECK_THAT(std::string(lacks.message()), Catch::Contains("without the sum of shard 0 (w)"));
  CHECK(tablet->open_step() == 1);
  stage(comes_early ? 0 : 1, /*sum=*/true);
  CHECK(Close(&tablet, 1, {0, 1}) == std::vector<uint64_t>{7, 8});
  // The sum is divided by the weights of both closures.
  CHECK(tablet.Pull(0) == Floats{-2, -4});
  CHECK(tablet.Pull(1) == Floats{-1, -1, 0});
  // Nothing of it is left: the next step needs no sum.
  TestPush next = Staged(9, 0, /*step=*/2);
  next.Dense<float>(0, {1, 1});
  CHECK(tablet.Push(next).status() == v1::STAGED);
  CHECK(Close(&tablet, 2, {0}) == std::vector<uint64_t>{9});
  CHECK(tablet.Pull(0) == Floats{-3, -5});
}

}  // namespace
}  // namespace cohort
