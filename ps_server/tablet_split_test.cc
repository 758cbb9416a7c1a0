// Large applies over several cores: the same bits as on one.
#include <cstring>
#include <limits>
#include <random>

#include "ps_server/apply_pool.h"
#include "ps_server/ps_test_util.h"

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

// Dense and sparse pushes, some of them while a pull holds the blocks. What the tablet holds then.
std::vector<Floats> Train(ApplyPool* helpers, const v1::OptimizerSpec& optimizer, int parts) {
  TestTablet tablet(Layout({Variable("w", {kRows, kColumns}, 1)}, optimizer), 1024, helpers);
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
  const TabletSnapshot snapshot = tablet->Snapshot(0);
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
    CAPTURE(optimizer.class_name(), optimizer.sparse_update());
    const std::vector<Floats> alone = Train(nullptr, optimizer, 1);
    CHECK(alone[0] != Floats(kElements, 1));
    CHECK(alone.back()[0] > 0);
    for (const int helpers : {0, 1, 3}) {
      ApplyPool pool(helpers);
      for (const int parts : {1, 2, 13}) {
        CAPTURE(helpers, parts);
        const std::vector<Floats> split = Train(&pool, optimizer, parts);
        REQUIRE(split.size() == alone.size());
        for (size_t i = 0; i < split.size(); ++i) CHECK(SameBits(split[i], alone[i]));
      }
    }
  }
}

TEST_CASE("a gradient that is not finite is told of, whichever core meets it") {
  ApplyPool pool(1);
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
