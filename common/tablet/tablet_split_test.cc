// Large applies over several cores: the same bits as on one.
#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <random>

#include "common/base/thread_pool.h"
#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kRows = 501;
constexpr int64_t kColumns = 16;
constexpr size_t kElements = kRows * kColumns;

Floats Random(size_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Floats values(count);
  for (float& value : values) value = uniform(engine);
  return values;
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Makes dense and sparse pushes, some of them while a pull holds the blocks. Returns what the
// tablet holds afterwards.
std::vector<Floats> Train(ThreadPool* helpers, const v1::OptimizerSpec& optimizer, int parts,
                          bool row_reads = false) {
  v1::VariableSpec variable = Variable("w", {kRows, kColumns}, 1);
  variable.set_row_reads(row_reads);
  TestTablet tablet(Layout({variable}, optimizer), 1024, helpers);
  std::vector<PayloadSlice> held;
  for (uint32_t step = 0; step < 12; ++step) {
    TestPush push(step);
    if (step % 3 == 2) {
      std::vector<int64_t> keys;
      for (int64_t key = step; key < kRows; key += 7) keys.push_back(key);
      push.Sparse<float>(0, keys, Random(keys.size() * kColumns, step));
    } else {
      const Floats gradient = Random(kElements, step);
      for (int part = 0; part < parts; ++part) {
        const size_t begin = kElements * part / parts;
        const size_t end = kElements * (part + 1) / parts;
        push.Dense<float>(0, Floats(gradient.begin() + begin, gradient.begin() + end), begin);
      }
    }
    if (step % 2 == 1) held = tablet.PullSlices({PullEntryView()});
    REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  }
  const TabletSnapshot snapshot = *tablet->Snapshot(0);
  std::vector<Floats> state;
  const auto slots = static_cast<int>(snapshot.shards[0].info->slots.size());
  for (int slot = -1; slot < slots; ++slot) {
    state.push_back(SnapshotValues(snapshot.shards[0], slot));
  }
  state.push_back({static_cast<float>(tablet->copied_blocks())});
  return state;
}

TEST_CASE("an apply has the same bits on one core and on several, whole and in parts") {
  for (const v1::OptimizerSpec& optimizer : {Adam(), Sgd(0.1, 0.9), Sgd(0.1, 0.9, "lazy")}) {
    CAPTURE(optimizer.rule().class_name(), optimizer.sparse_update());
    const std::vector<Floats> alone = Train(nullptr, optimizer, 1);
    CHECK(alone[0] != Floats(kElements, 1));
    CHECK(alone.back()[0] > 0);
    for (const int helpers : {0, 1, 3}) {
      ThreadPool pool(1 + helpers);
      for (const int parts : {1, 2, 13}) {
        CAPTURE(helpers, parts);
        const std::vector<Floats> split = Train(&pool, optimizer, parts);
        REQUIRE(split.size() == alone.size());
        for (size_t i = 0; i < split.size(); ++i) CHECK(SameBits(split[i], alone[i]));
      }
    }
  }
}

TEST_CASE("an embedding has the bits of another variable") {
  for (const char* const update : {"keras", "lazy"}) {
    const v1::OptimizerSpec optimizer = OptimizerOf("Adagrad", {}, update);
    std::vector<Floats> usual = Train(nullptr, optimizer, 1);
    for (const int helpers : {0, 3}) {
      ThreadPool pool(1 + helpers);
      const std::vector<Floats> rows = Train(&pool, optimizer, 1, true);
      REQUIRE(rows.size() == usual.size());
      for (size_t i = 0; i + 1 < rows.size(); ++i) CHECK(SameBits(rows[i], usual[i]));
      CHECK(rows.back()[0] > 0);
    }
  }
}

// A writer drops the values of a snapshot before its slots.
std::vector<Floats> UpdatedBesideSlots(const v1::OptimizerSpec& optimizer, bool snapshot) {
  v1::VariableSpec variable = Variable("w", {kRows, kColumns}, 1);
  variable.set_row_reads(true);
  TestTablet tablet(Layout({variable}, optimizer), 1024);
  std::vector<TabletSnapshot> held;
  for (uint32_t step = 0; step < 4; ++step) {
    if (snapshot) {
      held.clear();
      held.push_back(*tablet->Snapshot(0));
      for (ShardBlock& block : held[0].shards[0].blocks) block.values = BufferRef();
    }
    TestPush push(step);
    const std::vector<int64_t> keys = {1, 5, 90, 400};
    push.Sparse<float>(0, keys, Random(keys.size() * kColumns, step));
    REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  }
  const TabletSnapshot end = *tablet->Snapshot(0);
  std::vector<Floats> state;
  for (int slot = -1; slot < static_cast<int>(end.shards[0].info->slots.size()); ++slot) {
    state.push_back(SnapshotValues(end.shards[0], slot));
  }
  return state;
}

TEST_CASE("an update keeps slots that a snapshot shares without the values") {
  for (const char* const update : {"keras", "lazy"}) {
    for (const bool averages : {false, true}) {
      // Averages move in every step, so no update is lazy.
      if (averages && update == std::string("lazy")) continue;
      CAPTURE(update, averages);
      const v1::OptimizerSpec optimizer =
          OptimizerOf("Adagrad", {{"use_ema", ConfigOf(averages)}}, update);
      CHECK(UpdatedBesideSlots(optimizer, true) == UpdatedBesideSlots(optimizer, false));
    }
  }
}

// The bytes of a dense entry as a socket may deliver them: cut anywhere, without alignment.
class Received {
 public:
  explicit Received(std::span<const uint8_t> bytes, uint32_t seed) {
    std::mt19937 engine(seed);
    size_t begin = 0;
    while (begin < bytes.size()) {
      const size_t most = engine() % 3 == 0 ? 7 : 5000;
      const size_t size = std::min<size_t>(1 + engine() % most, bytes.size() - begin);
      const size_t shift = engine() % 8;
      memory_.emplace_back(shift + size);
      std::memcpy(memory_.back().data() + shift, bytes.data() + begin, size);
      pieces_.emplace_back(memory_.back().data() + shift, size);
      begin += size;
    }
  }
  // The entry's values are these from now on.
  void Replace(PushEntryView* entry) const {
    entry->values = {};
    entry->pieces = pieces_;
  }

 private:
  std::deque<std::vector<uint8_t>> memory_;
  std::vector<std::span<const uint8_t>> pieces_;
};

template <typename T>
std::vector<T> TrainOnPieces(v1::DType dtype, const std::vector<T>& gradient, bool in_pieces,
                             bool* non_finite) {
  TestTablet tablet(Layout({Variable("w", {kRows, kColumns}, 1, dtype)}, Adam()), 1024);
  for (uint32_t step = 0; step < 3; ++step) {
    TestPush push(step);
    push.Dense<T>(0, gradient);
    const Received received(push.entry(0).values, step);
    if (in_pieces) received.Replace(&push.entry(0));
    REQUIRE(tablet.Push(push).status() == v1::APPLIED);
    *non_finite = tablet.effect().non_finite;
  }
  return tablet.Pull<T>(0);
}

TEST_CASE("a gradient is applied from where it was received, with the same bits") {
  const Floats floats = Random(kElements, 1);
  bool non_finite = false;
  const Floats whole = TrainOnPieces(v1::FLOAT32, floats, false, &non_finite);
  CHECK(SameBits(TrainOnPieces(v1::FLOAT32, floats, true, &non_finite), whole));
  CHECK_FALSE(non_finite);
  const std::vector<double> doubles(floats.begin(), floats.end());
  CHECK(TrainOnPieces(v1::FLOAT64, doubles, true, &non_finite) ==
        TrainOnPieces(v1::FLOAT64, doubles, false, &non_finite));
  for (size_t where = 0; where < kElements; where += 997) {
    Floats bad = floats;
    bad[where] = -std::numeric_limits<float>::infinity();
    TrainOnPieces(v1::FLOAT32, bad, true, &non_finite);
    CHECK(non_finite);
  }
}

TEST_CASE("a gradient that is not finite is reported, whichever core finds it") {
  ThreadPool pool(2);
  TestTablet tablet(Layout({Variable("w", {kRows, kColumns}, 1)}, Sgd(1)), 1024, &pool);
  for (const size_t where : {size_t{0}, kElements / 2, kElements - 1}) {
    Floats gradient(kElements, 0);
    TestPush finite(2 * where);
    finite.Dense<float>(0, gradient);
    REQUIRE(tablet.Push(finite).status() == v1::APPLIED);
    CHECK_FALSE(tablet.effect().non_finite);
    gradient[where] = std::numeric_limits<float>::quiet_NaN();
    TestPush push(2 * where + 1);
    push.Dense<float>(0, gradient);
    REQUIRE(tablet.Push(push).status() == v1::APPLIED);
    CHECK(tablet.effect().non_finite);
  }
}

}  // namespace
}  // namespace cohort::ps_test
