#include "common/tablet/tablet.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

TEST_CASE("every update id is applied once") {
  TestTablet tablet(Layout({Variable("w", {3}, 10)}, Sgd(1)));
  TestPush push(5, 2);
  push.header().attempt = 4;
  push.Dense<float>(0, {1, 2, 3});
  const auto first = tablet.Push(push);
  CHECK(first.status() == v1::APPLIED);
  CHECK(first.version() == 1);
  push.header().attempt = 5;
  const auto again = tablet.Push(push);
  CHECK(again.status() == v1::DUPLICATE);
  CHECK(again.applied_attempt() == 4);
  CHECK(again.version() == 1);
  CHECK(tablet.Pull(0) == Floats{9, 8, 7});
  // Another ordinal of the closure is another update.
  TestPush next(5, 3);
  next.Dense<float>(0, {1, 1, 1});
  CHECK(tablet.Push(next).status() == v1::APPLIED);
  // A closure below the watermark is settled, whether it was applied or not.
  CHECK(tablet.Push(push, 1, 6).status() == v1::SETTLED);
  TestPush never(3);
  never.Dense<float>(0, {1, 1, 1});
  CHECK(tablet.Push(never).status() == v1::SETTLED);
  CHECK(tablet.Pull(0) == Floats{8, 7, 6});
}

TEST_CASE("an older generation, another term or timeline is fenced and changes nothing") {
  TestTablet tablet(Layout({Variable("w", {1})}, Sgd(1)));
  tablet->Fence(3);
  const auto push = [&](uint64_t generation, uint64_t term, uint64_t timeline) {
    TestPush p(1, 0, timeline);
    p.Dense<float>(0, {1});
    p.section().term = term;
    const auto result = tablet.Push(p, generation);
    CHECK(result.timeline() == 1);
    CHECK(result.term() == 1);
    return result.status();
  };
  CHECK(push(2, 1, 1) == v1::FENCED);
  CHECK(push(0, 1, 1) == v1::FENCED);
  CHECK(push(3, 0, 1) == v1::FENCED);
  CHECK(push(3, 2, 1) == v1::FENCED);
  CHECK(push(3, 1, 0) == v1::FENCED);
  CHECK(push(3, 1, 2) == v1::FENCED);
  CHECK(push(4, 1, 1) == v1::FENCED);  // its chief was not heard yet
  CHECK(push(~uint64_t{0}, 1, 1) == v1::FENCED);
  CHECK(tablet->version() == 0);
  CHECK(push(3, 1, 1) == v1::APPLIED);

  v1::PullResult result;
  std::vector<PayloadSlice> payload;
  PullSectionView section;
  section.term = 1;
  tablet->Pull(2, 0, section, &result, &payload);
  CHECK(result.status() == v1::FENCED);
  // A plain reader works for no chief.
  section.term = 0;
  tablet->Pull(0, 0, section, &result, &payload);
  CHECK(result.status() == v1::APPLIED);
  tablet->Retire();
  CHECK(push(3, 1, 1) == v1::MOVED);
}

TEST_CASE("what makes no sense is refused as a whole and its id stays free") {
  v1::VariableSpec frozen = Variable("frozen", {2});
  frozen.set_trainable(false);
  const auto layout = Layout({Variable("w", {4}), Variable("table", {3, 2}), frozen}, Sgd(1));
  struct Case {
    const char* message;
    std::function<void(TestPush&)> make;
  };
  const std::vector<Case> cases = {
      {"shard 9 is not in tablet 0", [](TestPush& p) { p.Dense<float>(9, {1}); }},
      {"a gradient of 3 of its 4 elements",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2, 3});
       }},
      {"5 from 0, but it has 4 elements",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2, 3, 4, 5});
       }},
      {"part from element 2, where 0 comes next",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2}, 2);
       }},
      {"part from element 1, where 2 comes next",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2}).Dense<float>(0, {1, 2, 3}, 1);
       }},
      {"8 bytes of values for 4",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2});
         p.entry(0).count = 4;
       }},
      {"from 18446744073709551615",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 2, 3, 4}, ~uint64_t{0});
       }},
      {"but it has 3 rows",
       [](TestPush& p) {
         p.Sparse<float>(1, {0}, {1, 1});
         p.entry(0).count = ~uint64_t{0};
       }},
      {"key 3 is not one of its 3 rows",
       [](TestPush& p) {
         p.Sparse<float>(1, {3}, {1, 1});
       }},
      {"key -1 is not one of its 3 rows",
       [](TestPush& p) {
         p.Sparse<float>(1, {-1}, {1, 1});
       }},
      {"16 bytes of keys for 1 rows",
       [](TestPush& p) {
         p.Sparse<float>(1, {0, 1}, {1, 1});
         p.entry(0).count = 1;
       }},
      {"entries of different kinds",
       [](TestPush& p) {
         p.Sparse<float>(1, {0}, {1, 1}).Dense<float>(1, {1, 1, 1, 1, 1, 1});
       }},
      {"do not follow one another",
       [](TestPush& p) { p.RecordOnly(1).RecordOnly(0).RecordOnly(1); }},
      {"the variable is not trainable",
       [](TestPush& p) {
         p.Dense<float>(2, {1, 1});
       }},
      {"momentum is nan",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 1, 1, 1}, 0, PushKind::kEma).last().momentum = std::nan("");
       }},
      {"momentum is 5",
       [](TestPush& p) {
         p.Sparse<float>(1, {0}, {1, 1}, PushKind::kEma).last().momentum = 5;
       }},
      {"momentum is -0.1",
       [](TestPush& p) {
         p.Dense<float>(0, {1, 1, 1, 1}, 0, PushKind::kEma).last().momentum = -0.1;
       }},
      {"weight is nan", [](TestPush& p) { p.header().weight = std::nan(""); }},
      {"weight is -1", [](TestPush& p) { p.header().weight = -1; }},
      {"lies 1152921504606846976 above the settled watermark",
       [](TestPush& p) { p.header().id.closure = uint64_t{1} << 60; }},
  };
  TestTablet tablet(layout);
  for (const Case& c : cases) {
    INFO(c.message);
    TestPush bad(7);
    // The entries before are right, and must not be applied either.
    bad.Dense<float>(2, {1, 1}, 0, PushKind::kAssignAdd);
    TestPush alone(7);
    c.make(alone);
    c.make(bad);
    CHECK(tablet.Push(alone).status() == v1::INVALID);
    const auto result = tablet.Push(bad);
    CHECK(result.status() == v1::INVALID);
    if (std::string(c.message).find("trainable") == std::string::npos) {
      CHECK_THAT(tablet.Push(alone).message(), Catch::Contains(c.message));
    }
    CHECK(tablet->version() == 0);
  }
  CHECK(tablet.Pull(0) == Floats(4, 0.0f));
  CHECK(tablet.Pull(2) == Floats(2, 0.0f));
  TestPush good(7);
  good.Dense<float>(0, {1, 1, 1, 1});
  CHECK(tablet.Push(good).status() == v1::APPLIED);
}

TEST_CASE("pulls that make no sense") {
  TestTablet tablet(Layout({Variable("w", {4, 2})}, Sgd(1)));
  const auto pull = [&](PullEntryView entry, uint64_t step = 0) {
    v1::PullResult result;
    std::vector<PayloadSlice> payload;
    PullSectionView section;
    section.term = 1;
    section.entries = std::span(&entry, 1);
    tablet->Pull(1, step, section, &result, &payload);
    CHECK(payload.empty());
    CHECK(result.status() == v1::INVALID);
    return result.message();
  };
  const int64_t keys[2] = {0, 4};
  PullEntryView entry;
  entry.shard = 1;
  CHECK_THAT(pull(entry), Catch::Contains("shard 1 is not in tablet 0"));
  entry.shard = 0;
  entry.rows = true;
  entry.count = 2;
  entry.keys = {reinterpret_cast<const uint8_t*>(keys), 16};
  CHECK_THAT(pull(entry), Catch::Contains("key 4"));
  entry.count = uint64_t{1} << 61;
  CHECK_THAT(pull(entry), Catch::Contains("16 bytes of keys"));
}

TEST_CASE("a gradient is divided by the weight; parts and blocks make no difference") {
  // 10 elements in blocks of 16 bytes, pushed whole and in parts that cut blocks.
  const auto layout = Layout({Variable("w", {10}, 1)}, Adam());
  TestTablet whole(layout, 1 << 20);
  TestTablet parts(layout, 16);
  Floats gradient(10);
  for (size_t i = 0; i < 10; ++i) gradient[i] = static_cast<float>(i) - 4.5f;
  for (uint64_t step = 0; step < 5; ++step) {
    TestPush a(step);
    a.Dense<float>(0, gradient);
    TestPush b(step);
    b.Dense<float>(0, Floats(gradient.begin(), gradient.begin() + 3));
    b.Dense<float>(0, Floats(gradient.begin() + 3, gradient.begin() + 9), 3);
    b.Dense<float>(0, Floats(gradient.begin() + 9, gradient.end()), 9);
    a.header().weight = b.header().weight = 8;
    REQUIRE(whole.Push(a).status() == v1::APPLIED);
    REQUIRE(parts.Push(b).status() == v1::APPLIED);
  }
  CHECK(whole.Pull(0) == parts.Pull(0));
  CHECK(whole.Pull(0)[0] > 1.4f);

  TestTablet sgd(Layout({Variable("w", {2}, 1)}, Sgd(0.5)));
  TestPush push(1);
  push.Dense<float>(0, {4, 8});
  push.header().weight = 4;
  REQUIRE(sgd.Push(push).status() == v1::APPLIED);
  CHECK(sgd.Pull(0) == Floats{0.5, 0});
}

TEST_CASE("staleness counts the updates since the pull") {
  TestTablet tablet(Layout({Variable("w", {1})}, Sgd(1)));
  for (uint64_t i = 0; i < 5; ++i) {
    TestPush push(i);
    push.Dense<float>(0, {1});
    push.section().pulled_version = i / 2;
    CHECK(tablet.Push(push).staleness() == i - i / 2);
  }
  TestPush future(9);
  future.RecordOnly(0);
  future.section().pulled_version = 1000;
  CHECK(tablet.Push(future).staleness() == 0);
}

TEST_CASE("a pull of more than the limit is refused, before anything is copied") {
  TestTablet tablet(Layout({Variable("t", {8, 4}, 1)}, Sgd(1)), 64, nullptr, 128);
  const std::vector<int64_t> keys = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(tablet.PullRows(0, keys).size() == 32);
  CHECK(tablet.Pull(0).size() == 32);
  PullEntryView rows;
  rows.rows = true;
  rows.count = keys.size();
  rows.keys = {reinterpret_cast<const uint8_t*>(keys.data()), keys.size() * sizeof(int64_t)};
  for (const PullEntryView& first : {rows, PullEntryView()}) {
    v1::PullResult result;
    // A program may read a variable twice: the second one is the first one that is too much.
    CHECK(tablet.PullSlices({first, first}).size() == (first.rows ? 2 : 4));
    CHECK(tablet.PullSlices({first, first, rows}, &result).empty());
    CHECK(result.status() == v1::INVALID);
    CHECK(result.entries_size() == 0);
    CHECK_THAT(result.message(), Catch::Contains("a pull of more than 256 bytes"));
  }
}

TEST_CASE("entries of one shard that do not follow one another are refused in every push") {
  TestTablet tablet(Layout({Variable("a", {2}, 1), Variable("b", {2}, 1)}, Sgd(1)));
  for (uint64_t closure = 0; closure < 3; ++closure) {
    TestPush good(closure);
    good.Dense<float>(0, {1, 1}).Dense<float>(1, {1, 1});
    CHECK(tablet.Push(good).status() == v1::APPLIED);
    TestPush torn(100 + closure);
    torn.RecordOnly(0).Dense<float>(1, {1, 1}).RecordOnly(0);
    const v1::PushResult result = tablet.Push(torn);
    CHECK(result.status() == v1::INVALID);
    CHECK_THAT(result.message(), Catch::Contains("do not follow one another"));
  }
}

TEST_CASE("a pulled block is immutable; only shared blocks are copied") {
  TestTablet tablet(Layout({Variable("w", {32}, 1)}, Sgd(1)), 64);
  const auto push = [&](uint64_t closure) {
    TestPush p(closure);
    p.Dense<float>(0, Floats(32, 1));
    REQUIRE(tablet.Push(p).status() == v1::APPLIED);
  };
  push(0);
  CHECK(tablet->copied_blocks() == 0);
  {
    const auto held = tablet.PullSlices({PullEntryView()});
    CHECK(held.size() == 2);
    push(1);
    CHECK(tablet->copied_blocks() == 2);
    push(2);
    CHECK(tablet->copied_blocks() == 2);
    CHECK(TestTablet::Values<float>(held) == Floats(32, 0));
    CHECK(tablet.Pull(0) == Floats(32, -2));
  }
  const int64_t allocated = tablet.pool()->heap_allocations();
  for (uint64_t i = 3; i < 100; ++i) {
    const auto held = tablet.PullSlices({PullEntryView()});
    push(i);
  }
  // Two buffers go back and forth.
  CHECK(tablet.pool()->heap_allocations() <= allocated + 2);
}

// All values of the shard, if they lie in one run of memory; else null.
const float* RunOf(const std::vector<PayloadSlice>& slices) {
  const uint8_t* next = nullptr;
  for (const PayloadSlice& slice : slices) {
    const uint8_t* const data = slice.buffer->data() + slice.offset;
    if (next != nullptr && data != next) return nullptr;
    next = data + slice.bytes;
  }
  return reinterpret_cast<const float*>(slices[0].buffer->data() + slices[0].offset);
}

TEST_CASE("values that a snapshot made leave their run return to it, and bytes to copy are known") {
  constexpr size_t kElements = 256;  // 16 blocks
  TestTablet tablet(Layout({Variable("w", {kElements}, 0)}, Sgd(1)),
                    ShardOptions{.block_bytes = 64, .run_bytes = kElements * sizeof(float)});
  const auto pull = [&] { return tablet.PullSlices({PullEntryView()}); };
  TestPush sparse(0), again(1), dense(2);
  sparse.Sparse<float>(0, {3, 4, 100}, {1, 1, 1});
  again.Sparse<float>(0, {3, 100}, {1, 1});
  dense.Dense<float>(0, Floats(kElements, 0));
  CHECK(tablet->BytesToCopy(sparse.section()) == 0);
  auto snapshot = std::make_unique<TabletSnapshot>(*tablet->Snapshot(0));
  CHECK(tablet->BytesToCopy(sparse.section()) == 2 * 64);
  CHECK(tablet->BytesToCopy(dense.section()) == kElements * sizeof(float));
  REQUIRE(tablet.Push(sparse).status() == v1::APPLIED);
  CHECK(tablet->BytesToCopy(again.section()) == 0);
  REQUIRE(tablet.Push(again).status() == v1::APPLIED);
  CHECK(tablet->copied_blocks() == 2);
  tablet->Reclaim();  // too early: the snapshot needs the places
  CHECK(RunOf(pull()) == nullptr);
  CHECK(SnapshotValues(snapshot->shards[0]) == Floats(kElements, 0));
  snapshot = nullptr;
  tablet->Reclaim();
  const auto values = pull();
  CHECK(RunOf(values) != nullptr);
  std::vector<float> expected = Floats(kElements, 0);
  expected[3] = expected[100] = -2;
  expected[4] = -1;
  CHECK(TestTablet::Values<float>(values) == expected);
}

TEST_CASE("values that only readers share are no bytes to copy for a snapshot") {
  constexpr size_t kElements = 256;
  TestTablet tablet(Layout({Variable("w", {kElements}, 0)}, Sgd(1)),
                    ShardOptions{.block_bytes = 64, .run_bytes = kElements * sizeof(float)});
  TestPush first(0), second(1);
  first.Dense<float>(0, Floats(kElements, 1));
  second.Dense<float>(0, Floats(kElements, 1));
  const TabletSnapshot snapshot = *tablet->Snapshot(0);
  CHECK(tablet->BytesToCopy(first.section()) == kElements * sizeof(float));
  REQUIRE(tablet.Push(first).status() == v1::APPLIED);
  const auto read = tablet.PullSlices({PullEntryView()});
  CHECK(tablet->BytesToCopy(second.section()) == 0);
}

TEST_CASE("a large shard's values lie in one run, whatever readers hold") {
  constexpr size_t kElements = 256;  // 16 blocks
  ShardOptions options{.block_bytes = 64, .run_bytes = kElements * sizeof(float)};
  TestTablet tablet(Layout({Variable("w", {kElements}, 0)}, Sgd(1)), options);
  uint64_t closure = 0;
  const auto push = [&] {
    TestPush p(closure++);
    p.Dense<float>(0, Floats(kElements, 1));
    REQUIRE(tablet.Push(p).status() == v1::APPLIED);
  };
  const auto pull = [&] { return tablet.PullSlices({PullEntryView()}); };
  const float* const first = RunOf(pull());
  REQUIRE(first != nullptr);
  push();
  CHECK(RunOf(pull()) == first);  // nobody reads: in place
  CHECK(tablet->copied_blocks() == 0);
  const auto held = pull();
  std::vector<std::vector<PayloadSlice>> versions;
  for (int i = 0; i < 4; ++i) {
    push();
    versions.push_back(pull());
    REQUIRE(RunOf(versions.back()) != nullptr);
    CHECK(TestTablet::Values<float>(versions.back()) ==
          Floats(kElements, -2.0f - static_cast<float>(i)));
  }
  CHECK(TestTablet::Values<float>(held) == Floats(kElements, -1));
  CHECK(TestTablet::Values<float>(versions[0]) == Floats(kElements, -2));
  versions.clear();
  // A sparse push copies the blocks of its rows alone; the next dense one restores the run.
  TestPush sparse(closure++);
  sparse.Sparse<float>(0, {3, 100}, {1, 1});
  const auto before = pull();
  const uint64_t copied = tablet->copied_blocks();
  REQUIRE(tablet.Push(sparse).status() == v1::APPLIED);
  CHECK(tablet->copied_blocks() == copied + 2);
  CHECK(RunOf(pull()) == nullptr);
  push();
  CHECK(RunOf(pull()) != nullptr);
  Floats expected(kElements, -6);
  expected[3] = expected[100] = -7;
  CHECK(tablet.Pull(0) == expected);
  CHECK(TestTablet::Values<float>(before) == Floats(kElements, -5));
}

TEST_CASE("a snapshot holds its version of a large shard, and the run comes back") {
  constexpr size_t kElements = 64;
  ShardOptions options{.block_bytes = 64, .run_bytes = 1};
  TestTablet tablet(Layout({Variable("w", {kElements}, 0)}, Sgd(1)), options);
  const auto push = [&](uint64_t closure) {
    TestPush p(closure);
    p.Dense<float>(0, Floats(kElements, 1));
    REQUIRE(tablet.Push(p).status() == v1::APPLIED);
  };
  const float* const first = RunOf(tablet.PullSlices({PullEntryView()}));
  const float* second = nullptr;
  {
    const TabletSnapshot snapshot = *tablet->Snapshot(0);
    push(0);
    second = RunOf(tablet.PullSlices({PullEntryView()}));
    CHECK(second != first);
    CHECK(SnapshotValues(snapshot.shards[0]) == Floats(kElements, 0));
  }
  push(1);
  CHECK(RunOf(tablet.PullSlices({PullEntryView()})) == second);
  const auto held = tablet.PullSlices({PullEntryView()});
  push(2);
  CHECK(RunOf(tablet.PullSlices({PullEntryView()})) == first);  // it was spare
}

TEST_CASE("runs that were not needed for long are freed") {
  ValueRuns runs(64, nullptr);
  std::vector<BufferRef> held;
  for (int i = 0; i < 5; ++i) held.push_back(runs.Next());
  CHECK(runs.count() == 5);
  held.resize(1);
  for (int i = 0; i < 2 * ValueRuns::kWindow; ++i) held = {held.back(), runs.Next()};
  CHECK(runs.count() == 3);  // the newest two, and the one that comes next
  held.resize(1);
  for (int i = 0; i < 2 * ValueRuns::kWindow; ++i) runs.NoteInPlace();
  CHECK(runs.count() == 1);
}

TEST_CASE("a snapshot is not changed by later pushes and copies no table") {
  TestTablet tablet(Layout({Variable("w", {64, 4}, 1)}, Sgd(1, 0.5, "lazy")), 64);
  TestPush before(1);
  before.Sparse<float>(0, {7}, {1, 1, 1, 1});
  REQUIRE(tablet.Push(before).status() == v1::APPLIED);
  const TabletSnapshot snapshot = *tablet->Snapshot(1);
  const Floats values = tablet.Pull(0);
  CHECK(tablet->copied_blocks() == 0);
  TestPush after(2);
  after.Sparse<float>(0, {7, 8, 40}, Floats(12, 1));
  REQUIRE(tablet.Push(after).status() == v1::APPLIED);
  // Three rows in three of 16 blocks; each has its values and one slot.
  CHECK(tablet->copied_blocks() == 6);
  REQUIRE(snapshot.shards.size() == 1);
  CHECK(SnapshotValues(snapshot.shards[0]) == values);
  CHECK(SnapshotValues(snapshot.shards[0], 0)[7 * 4] == -1.0f);
  CHECK(tablet.Pull(0) != values);
  CHECK(snapshot.cut->version() == 1);
  CHECK(snapshot.cut->applied().watermark() == 1);
  REQUIRE(snapshot.cut->applied().applied_size() == 1);
  CHECK(snapshot.cut->applied().applied(0).closure() == 1);
}

TEST_CASE("sparse_update keras decays every row, lazy only those of the gradient") {
  for (const std::string mode : {"keras", "lazy"}) {
    CAPTURE(mode);
    TestTablet tablet(Layout({Variable("t", {8, 2}, 0)}, Sgd(1, 0.5, mode)), 32);
    TestPush first(0);
    first.Sparse<float>(0, {1, 6}, Floats(4, -8));
    REQUIRE(tablet.Push(first).status() == v1::APPLIED);
    CHECK(tablet.PullRows(0, {6, 0, 1}) == Floats{8, 8, 0, 0, 8, 8});
    TestPush second(1);
    second.Sparse<float>(0, {2}, Floats(2, -8));
    REQUIRE(tablet.Push(second).status() == v1::APPLIED);
    const float moved = mode == "keras" ? 12 : 8;
    CHECK(tablet.PullRows(0, {1, 2, 6}) == Floats{moved, moved, 8, 8, moved, moved});
    // A gradient of zero rows is an update, too.
    TestPush none(2);
    none.Sparse<float>(0, {}, Floats());
    CHECK(tablet.Push(none).status() == v1::APPLIED);
    CHECK(tablet.PullRows(0, {1, 2}) ==
          (mode == "keras" ? Floats{14, 14, 12, 12} : Floats{8, 8, 8, 8}));
  }
}

TEST_CASE("each variable has the optimizer that the layout names for it") {
  v1::VariableSpec adagrad = Variable("adagrad", {2}, 1);
  v1::VariableSpec frozen = Variable("frozen", {2}, 1);
  frozen.set_trainable(false);
  frozen.set_optimizer(9);  // without meaning
  v1::VariableSpec plain = Variable("plain", {2}, 1);
  plain.set_optimizer(1);
  TestTablet tablet(Layout({adagrad, frozen, plain},
                           std::vector<v1::OptimizerSpec>{
                               OptimizerOf("Adagrad", {{"learning_rate", ConfigOf(0.5)},
                                                       {"initial_accumulator_value", ConfigOf(3.0)},
                                                       {"epsilon", ConfigOf(0.0)}}),
                               Sgd(0.25)}));
  TestPush push(0);
  push.Dense<float>(0, {1, 1}).Dense<float>(2, {1, 1});
  REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  CHECK(tablet.Pull(0) == Floats{0.75, 0.75});  // 1 - 0.5 / sqrt(3 + 1)
  CHECK(tablet.Pull(1) == Floats{1, 1});
  CHECK(tablet.Pull(2) == Floats{0.75, 0.75});
  TestPush gradient(1);
  gradient.Dense<float>(1, {1, 1});
  CHECK(tablet.Push(gradient).status() == v1::INVALID);
  const TabletSnapshot snapshot = *tablet->Snapshot(0);
  REQUIRE(snapshot.shards.size() == 3);
  CHECK(snapshot.shards[0].info->slots.size() == 1);
  CHECK(SnapshotValues(snapshot.shards[0], 0) == Floats{4, 4});
  CHECK(snapshot.shards[1].info->slots.empty());
  CHECK(snapshot.shards[2].info->slots.empty());
}

TEST_CASE("keys in any order, in parts or twice are their sum in order") {
  const auto layout = Layout({Variable("t", {9, 2}, 0)}, Sgd(1, 0.9));
  TestTablet sorted(layout, 32);
  TestTablet wild(layout, 32);
  for (uint64_t step = 0; step < 3; ++step) {
    TestPush a(step);
    a.Sparse<float>(0, {1, 4, 8}, {1, 2, 30, 40, 5, 6});
    TestPush b(step);
    b.Sparse<float>(0, {8, 4}, {5, 6, 10, 10}).Sparse<float>(0, {1, 4}, {1, 2, 20, 30});
    REQUIRE(sorted.Push(a).status() == v1::APPLIED);
    REQUIRE(wild.Push(b).status() == v1::APPLIED);
  }
  CHECK(sorted.Pull(0) == wild.Pull(0));
}

TEST_CASE("assign_add, ema and record_only") {
  v1::VariableSpec mean = Variable("mean", {3}, 1, v1::FLOAT64);
  mean.set_trainable(false);
  v1::VariableSpec count = Variable("count", {2, 2}, 0, v1::INT64);
  count.set_trainable(false);
  TestTablet tablet(Layout({mean, count}, Sgd(1)), 16);
  TestPush push(0);
  push.Dense<double>(0, {2, 3, 4}, 0, PushKind::kEma);
  push.entry(0).momentum = 0.75;
  push.Sparse<int64_t>(1, {1}, {5, 6}, PushKind::kAssignAdd);
  const auto held = tablet.PullSlices({PullEntryView()});
  REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  CHECK(tablet.Pull<double>(0) == std::vector<double>{1.25, 1.5, 1.75});
  CHECK(tablet.Pull<int64_t>(1) == std::vector<int64_t>{0, 0, 5, 6});
  CHECK(TestTablet::Values<double>(held) == std::vector<double>(3, 1));
  TestPush part(1);
  part.Dense<int64_t>(1, {1, 1}, 1, PushKind::kAssignAdd);
  REQUIRE(tablet.Push(part).status() == v1::APPLIED);
  CHECK(tablet.Pull<int64_t>(1) == std::vector<int64_t>{0, 1, 6, 6});
  TestPush record(2);
  record.RecordOnly(0);
  CHECK(tablet.Push(record).version() == 3);
  CHECK(tablet.Push(record).status() == v1::DUPLICATE);
  TestPush average(3);
  average.Dense<int64_t>(1, {1, 1, 1, 1}, 0, PushKind::kEma);
  CHECK(tablet.Push(average).status() == v1::INVALID);
}

// Dense and sparse pushes to a matrix in blocks of this size, of which a snapshot shares some.
Floats TrainMatrix(const v1::OptimizerSpec& optimizer, const v1::ClassConfig* constraint,
                   size_t block_bytes) {
  v1::VariableSpec matrix = Variable("w", {9, 5}, 0.5);
  if (constraint != nullptr) *matrix.mutable_constraint() = *constraint;
  TestTablet tablet(Layout({matrix}, optimizer), block_bytes);
  Floats gradient;
  for (int i = 0; i < 45; ++i) gradient.push_back(static_cast<float>(i % 7) - 2.5F);
  std::vector<TabletSnapshot> snapshots;
  for (uint64_t step = 0; step < 6; ++step) {
    TestPush push(step);
    if (step % 3 == 2) {
      push.Sparse<float>(0, {1, 7}, Floats(gradient.begin(), gradient.begin() + 10));
    } else {
      push.Dense<float>(0, Floats(gradient.begin(), gradient.begin() + 13))
          .Dense<float>(0, Floats(gradient.begin() + 13, gradient.end()), 13);
    }
    CHECK(tablet.Push(push).status() == v1::APPLIED);
    if (step % 2 == 1) snapshots.push_back(*tablet->Snapshot(0));
  }
  return tablet.Pull(0);
}

TEST_CASE("rules of rows and of whole variables do not depend on blocks") {
  const v1::ClassConfig columns = ClassOf("UnitNorm"),
                        rows = ClassOf("MaxNorm", {{"axis", ConfigOf(1)}});
  const v1::ClassConfig positive = ClassOf("NonNeg");
  const auto same = [](const v1::OptimizerSpec& optimizer, const v1::ClassConfig* constraint) {
    INFO(optimizer.ShortDebugString());
    const Floats whole = TrainMatrix(optimizer, constraint, 1 << 20);
    CHECK(whole != Floats(45, 0.5));
    CHECK(TrainMatrix(optimizer, constraint, 64) == whole);
    CHECK(TrainMatrix(optimizer, constraint, 1) == whole);
  };
  for (const char* name : {"Lamb", "Adafactor", "Muon", "ScheduleFreeAdamW"}) {
    same(OptimizerOf(name, {{"learning_rate", ConfigOf(0.1)}}), nullptr);
  }
  for (const v1::ClassConfig* constraint : {&columns, &rows, &positive}) {
    same(Sgd(0.5), constraint);
    same(Adam(), constraint);
  }
  same(OptimizerOf("Adam", {{"use_ema", ConfigOf(true)},
                            {"ema_overwrite_frequency", ConfigOf(2)},
                            {"gradient_accumulation_steps", ConfigOf(2)}}),
       &rows);
}

TEST_CASE("a pull may ask for averages, and the last snapshot has them as values") {
  const v1::OptimizerSpec averaging = OptimizerOf("SGD", {{"learning_rate", ConfigOf(1.0)},
                                                          {"use_ema", ConfigOf(true)},
                                                          {"ema_momentum", ConfigOf(0.5)}});
  v1::VariableSpec constant = Variable("c", {2}, 7);
  constant.set_trainable(false);
  TestTablet tablet(Layout({Variable("w", {3, 2}, 8), constant}, averaging));
  for (const uint64_t closure : {0, 1}) {
    TestPush push(closure);
    push.Dense<float>(0, {1, 2, 3, 4, 5, 6});
    CHECK(tablet.Push(push).status() == v1::APPLIED);
  }
  CHECK(tablet.Pull(0) == Floats{6, 4, 2, 0, -2, -4});
  // The first step has the weights, as in Keras.
  const Floats averages = {6.5, 5, 3.5, 2, 0.5, -1};
  const auto pull = [&](uint32_t shard, std::vector<int64_t> keys) {
    PullEntryView entry{.shard = shard, .rows = !keys.empty(), .average = true};
    entry.count = keys.size();
    entry.keys = {reinterpret_cast<const uint8_t*>(keys.data()), keys.size() * 8};
    return TestTablet::Values<float>(tablet.PullSlices({entry}));
  };
  CHECK(pull(0, {}) == averages);
  CHECK(pull(0, {2, 0}) == Floats{0.5, -1, 6.5, 5});
  auto snapshot = tablet->Snapshot(0);
  REQUIRE(snapshot.ok());
  CHECK(SnapshotValues(snapshot->shards[0]) == Floats{6, 4, 2, 0, -2, -4});
  snapshot->TakeAverages();
  CHECK(SnapshotValues(snapshot->shards[0]) == averages);
  CHECK(SnapshotValues(snapshot->shards[0], 0) == averages);
  CHECK(tablet.Pull(0) == Floats{6, 4, 2, 0, -2, -4});
}

TEST_CASE("a lazy update constrains the rows of its keys alone") {
  v1::VariableSpec matrix = Variable("w", {3, 2}, -1);
  *matrix.mutable_constraint() = ClassOf("NonNeg");
  for (const bool lazy : {false, true}) {
    TestTablet tablet(Layout({matrix}, Sgd(1, 0, lazy ? "lazy" : "keras")));
    TestPush push(0);
    push.Sparse<float>(0, {1}, {1, -3});
    CHECK(tablet.Push(push).status() == v1::APPLIED);
    CHECK(tablet.Pull(0) == (lazy ? Floats{-1, -1, 0, 2, -1, -1} : Floats{0, 0, 0, 2, 0, 0}));
  }
}

TEST_CASE("NaN and infinity are applied and noticed") {
  TestTablet tablet(Layout({Variable("w", {2})}, Sgd(1)));
  TestPush fine(0);
  fine.Dense<float>(0, {1e38f, -1e-40f});
  tablet.Push(fine);
  CHECK(!tablet.effect().non_finite);
  TestPush bad(1);
  bad.Dense<float>(0, {1, std::numeric_limits<float>::infinity()});
  CHECK(tablet.Push(bad).status() == v1::APPLIED);
  CHECK(tablet.effect().non_finite);
  CHECK(tablet.Pull(0)[1] == -std::numeric_limits<float>::infinity());
}

TEST_CASE("no pull is torn, whoever pushes meanwhile") {
  // Each push adds one to every element of both shards, in many blocks.
  TestTablet tablet(Layout({Variable("a", {64}), Variable("b", {8, 8})}, Sgd(1)), 32);
  constexpr int kPushers = 2;
  constexpr uint64_t kPushes = 300;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kPushers; ++t) {
    threads.emplace_back([&tablet, t] {
      for (uint64_t i = 0; i < kPushes; ++i) {
        TestPush push(i * kPushers + t);
        push.Dense<float>(0, Floats(64, -1)).Dense<float>(1, Floats(64, -1));
        v1::PushResult result;
        tablet->Push(1, 0, push.header(), push.section(), &result);
      }
    });
  }
  std::vector<int> torn(2);
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&tablet, &torn, t] {
      float last = 0;
      while (last < kPushers * kPushes) {
        PullEntryView entries[2];
        entries[1].shard = 1;
        PullSectionView section;
        section.term = 1;
        section.entries = entries;
        v1::PullResult result;
        std::vector<PayloadSlice> payload;
        tablet->Pull(1, 0, section, &result, &payload);
        const Floats values = TestTablet::Values<float>(payload);
        for (const float value : values) torn[t] += value != values[0];
        torn[t] += values.size() != 128 || values[0] < last ||
                   values[0] != static_cast<float>(result.version());
        last = values[0];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == std::vector<int>{0, 0});
  CHECK(tablet->version() == kPushers * kPushes);
}

}  // namespace
}  // namespace cohort::ps_test
