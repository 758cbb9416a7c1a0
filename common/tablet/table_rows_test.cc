// Tables without bounds: updates make rows, and these are those of a dense range.
#include "common/tensor/table_rows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

constexpr int64_t kWidth = 3;
constexpr int64_t kKeys = 1000;

TEST_CASE("a key has one row, and a row one key") {
  std::mt19937_64 random(1);
  std::set<int64_t> rows;
  for (int64_t i = 0; i < 100'000; ++i) {
    const int64_t key = i % 2 == 0 ? i : static_cast<int64_t>(random() >> 2);
    const int64_t row = RowOfKey(key);
    REQUIRE(row >= 0);
    REQUIRE(row < kTableRows);
    REQUIRE(KeyOfRow(row) == key);
    rows.insert(row);
  }
  CHECK(rows.size() == 100'000);
  // The lowest 62 bits count.
  CHECK(RowOfKey(-1) == RowOfKey(kTableRows - 1));
  CHECK(RowOfKey(std::numeric_limits<int64_t>::min()) == RowOfKey(0));
  // Keys in a row lie all over the table.
  CHECK(std::ranges::count_if(rows, [](int64_t row) { return row < kTableRows / 4; }) > 24'000);
}

v1::VariableSpec Embedding(int64_t rows) {
  v1::VariableSpec variable = Variable("w", {rows, kWidth});
  variable.set_row_reads(true);
  variable.mutable_initializer()->set_class_name("RandomUniform");
  variable.mutable_initializer()->set_minval(-1);
  variable.mutable_initializer()->set_maxval(1);
  variable.mutable_initializer()->set_seed(5);
  return variable;
}

// One whole variable in a tablet.
v1::Layout OneShard(int64_t rows, const v1::OptimizerSpec& optimizer) {
  v1::Layout layout;
  *layout.add_variables() = Embedding(rows);
  layout.add_shards()->set_rows(static_cast<uint64_t>(rows));
  layout.add_tablets();
  *layout.add_optimizers() = optimizer;
  return layout;
}

// Some keys, each with a gradient.
std::map<int64_t, std::vector<float>> RandomGradient(std::mt19937* random) {
  std::map<int64_t, std::vector<float>> gradient;
  for (int i = 0; i < 40; ++i) {
    std::vector<float>& row = gradient[static_cast<int64_t>((*random)() % kKeys)];
    row.clear();
    for (int64_t c = 0; c < kWidth; ++c) {
      row.push_back(static_cast<float>((*random)() % 100) / 50 - 1);
    }
  }
  return gradient;
}

// A push of the gradient. `place` gives the number of a key's row.
template <typename Place>
void PushTo(TestTablet* tablet, uint64_t step,
            const std::map<int64_t, std::vector<float>>& gradient, const Place& place) {
  std::map<int64_t, std::vector<float>> rows;  // ascending, as workers send them
  for (const auto& [key, row] : gradient) rows[place(key)] = row;
  std::vector<int64_t> keys;
  std::vector<float> values;
  for (const auto& [row, numbers] : rows) {
    keys.push_back(row);
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  TestPush push(step);
  push.Sparse<float>(0, keys, values);
  REQUIRE(tablet->Push(push).status() == v1::APPLIED);
}

TEST_CASE("a table has the bits of a dense range with the same keys") {
  const auto same = [](int64_t key) { return key; };
  std::vector<int64_t> keys(kKeys);
  std::vector<int64_t> rows(kKeys);
  for (int64_t key = 0; key < kKeys; ++key) {
    keys[static_cast<size_t>(key)] = key;
    rows[static_cast<size_t>(key)] = RowOfKey(key);
  }
  for (const auto& [name, halves] :
       std::vector<std::pair<const char*, bool>>{{"SGD", false},
                                                 {"Adagrad", false},
                                                 {"Adam", false},
                                                 {"Ftrl", false},
                                                 {"RowwiseAdagrad", false},
                                                 {"Adagrad", true},
                                                 {"Adam", true}}) {
    for (const char* const update : {"keras", "lazy"}) {
      // Without a gradient, Ftrl makes a row that nothing has updated zeros.
      if (name == std::string("Ftrl") && update == std::string("keras")) continue;
      CAPTURE(name, update, halves);
      std::vector<std::pair<std::string, v1::ConfigValue>> arguments = {
          {"learning_rate", ConfigOf(0.1)}};
      if (halves) arguments.emplace_back("slot_dtype", ConfigOf(std::string("bfloat16")));
      const v1::OptimizerSpec optimizer = OptimizerOf(name, arguments, update);
      TestTablet dense(OneShard(kKeys, optimizer), 256);
      TestTablet table(OneShard(kTableRows, optimizer), 256);
      CHECK(table.PullRows(0, rows) == dense.PullRows(0, keys));
      CHECK(table->bytes() == 0);  // reads make no rows
      std::mt19937 random(3);
      std::vector<PayloadSlice> held;
      std::vector<TabletSnapshot> snapshots;
      for (uint64_t step = 0; step < 30; ++step) {
        const auto gradient = RandomGradient(&random);
        PushTo(&dense, step, gradient, same);
        PushTo(&table, step, gradient, RowOfKey);
        if (step % 7 == 3) snapshots.push_back(*table->Snapshot(0));  // later updates copy
        REQUIRE(table.PullRows(0, rows) == dense.PullRows(0, keys));
      }
    }
  }
}

// What the rules say, of one row after another.
class Model {
 public:
  explicit Model(const v1::TableSpec& rules) : rules_(rules) {}

  // An update at `clock` names the key. Returns true if its gradient counts.
  bool Update(int64_t key, uint64_t clock) {
    Row& row = rows_[key];
    if (rules_.evict_after_steps() > 0 && clock > row.clock + rules_.evict_after_steps()) row = {};
    row.clock = clock;
    if (++row.count < std::max<uint64_t>(rules_.min_count(), 1)) return false;
    return true;
  }
  bool Exists(int64_t key, uint64_t clock) const {
    const auto row = rows_.find(key);
    if (row == rows_.end() || row->second.count < rules_.min_count()) return false;
    return rules_.evict_after_steps() == 0 ||
           clock <= row->second.clock + rules_.evict_after_steps();
  }

 private:
  struct Row {
    uint64_t count = 0;
    uint64_t clock = 0;
  };
  const v1::TableSpec rules_;
  std::map<int64_t, Row> rows_;
};

TEST_CASE("rows are made and gone as the rules say") {
  v1::TableSpec rules;
  rules.set_min_count(3);
  rules.set_evict_after_steps(GENERATE(0, 4, 40));
  v1::Layout layout = OneShard(kTableRows, Sgd(0.5));
  *layout.mutable_variables(0)->mutable_table() = rules;
  TestTablet table(layout, 256);
  Model model(rules);
  std::vector<int64_t> rows;
  for (int64_t key = 0; key < 60; ++key) rows.push_back(RowOfKey(key));
  const std::vector<float> first = table.PullRows(0, rows);
  std::vector<float> expected = first;
  std::mt19937 random(4);
  size_t dropped = 0;
  size_t gone = 0;
  for (uint64_t step = 0; step < 300; ++step) {
    std::map<int64_t, std::vector<float>> gradient;
    for (int i = 0; i < 6; ++i) gradient[random() % 60] = {1, -1, 0.5};
    for (const auto& [key, row] : gradient) {
      const bool existed = model.Exists(key, step);
      float* const values = expected.data() + key * kWidth;
      if (!model.Update(key, step)) {
        ++dropped;
        continue;
      }
      if (!existed) std::copy_n(first.data() + key * kWidth, kWidth, values);
      for (int64_t c = 0; c < kWidth; ++c) values[c] -= 0.5f * row[static_cast<size_t>(c)];
    }
    PushTo(&table, step, gradient, RowOfKey);
    const std::vector<float> pulled = table.PullRows(0, rows);
    for (int64_t key = 0; key < 60; ++key) {
      const bool exists = model.Exists(key, step + 1);
      gone += exists ? 0 : 1;
      const std::vector<float>& from = exists ? expected : first;
      CAPTURE(step, key, exists);
      REQUIRE(std::equal(pulled.begin() + key * kWidth, pulled.begin() + (key + 1) * kWidth,
                         from.begin() + key * kWidth));
    }
  }
  CHECK(dropped > 100);
  CHECK(gone > 100);
}

TEST_CASE("a table keeps its newest rows, and those that are not small") {
  v1::Layout layout = OneShard(kTableRows, Sgd(1));
  layout.mutable_variables(0)->mutable_table()->set_max_rows(32);
  TestTablet table(layout, 256);
  std::vector<int64_t> rows;
  for (int64_t key = 0; key < 200; ++key) rows.push_back(RowOfKey(key));
  const std::vector<float> first = table.PullRows(0, rows);
  for (int64_t key = 0; key < 200; ++key) {
    PushTo(&table, static_cast<uint64_t>(key), {{key, {4, 4, 4}}}, RowOfKey);
  }
  const std::vector<float> after = table.PullRows(0, rows);
  for (int64_t key = 0; key < 200; ++key) {
    const bool changed =
        after[static_cast<size_t>(key * kWidth)] != first[static_cast<size_t>(key * kWidth)];
    if (key < 168) CHECK_FALSE(changed);
    if (key >= 172) CHECK(changed);
  }
  int64_t places = 0;
  const auto snapshot = table->Snapshot(0);
  for (const ShardBlock& block : snapshot->shards[0].blocks) places += block.rows;
  CHECK(places < 100);  // places are used again
  CHECK(table->bytes() > 32 * (kWidth * sizeof(float) + 2 * sizeof(int64_t)));

  layout.mutable_variables(0)->mutable_table()->set_max_rows(0);
  layout.mutable_variables(0)->mutable_table()->set_evict_below_l2(0.1);
  TestTablet small(layout, 256);
  // The first row becomes zeros.
  std::map<int64_t, std::vector<float>> gradient;
  gradient[0] = {first[0], first[1], first[2]};
  gradient[1] = {9, 9, 9};
  PushTo(&small, 1, gradient, RowOfKey);
  const std::vector<float> pulled = small.PullRows(0, {RowOfKey(0), RowOfKey(1)});
  CHECK(pulled[0] == first[0]);
  CHECK(pulled[3] == first[3] - 9);
}

// The counts that a checkpoint has, by row.
std::map<int64_t, std::pair<uint64_t, uint64_t>> CountsOf(TestTablet& table) {
  const TabletSnapshot snapshot = *table->Snapshot(0);
  const ShardSnapshot& shard = snapshot.shards[0];
  std::map<int64_t, std::pair<uint64_t, uint64_t>> counts;
  for (const auto& part : shard.counts) {
    for (const auto& [row, count] : *part) {
      if (!shard.rules->IsGone(count.updated, shard.clock))
        counts[row] = {count.count, count.updated};
    }
  }
  return counts;
}

TEST_CASE("a restored table reaches the limit of its counts when the one it is of does") {
  // A shard with a small part of the rows: each of its parts has at most 16 counts.
  v1::Layout layout = OneShard(kTableRows, Sgd(0.5));
  layout.mutable_shards(0)->set_rows(static_cast<uint64_t>(kTableRows / 8192));
  layout.mutable_variables(0)->mutable_table()->set_min_count(50);
  layout.mutable_variables(0)->mutable_table()->set_evict_after_steps(6);
  TestTablet table(layout, 256);
  auto restored = std::make_unique<TestTablet>(layout, 256);
  std::mt19937 random(2);
  size_t most = 0;
  bool limited = false;
  for (uint64_t step = 0; step < 200; ++step) {
    std::set<int64_t> rows;
    for (int i = 0; i < 4; ++i)
      rows.insert(static_cast<int64_t>(random() % 40 * TableRows::kParts));
    TestPush push(step);
    push.Sparse<float>(0, {rows.begin(), rows.end()}, std::vector<float>(rows.size() * kWidth, 1));
    const size_t before = CountsOf(table).size();
    REQUIRE(table.Push(push).status() == v1::APPLIED);
    REQUIRE(restored->Push(push).status() == v1::APPLIED);
    const auto counts = CountsOf(table);
    REQUIRE(CountsOf(*restored) == counts);
    most = std::max(most, counts.size());
    limited |= counts.size() + 3 < before;

    restored = std::make_unique<TestTablet>(layout, 256);
    REQUIRE((*restored)->Restore(v1::AppliedSetProto(), step + 1).ok());
    std::vector<int64_t> names;
    std::vector<uint64_t> numbers, updated;
    for (const auto& [row, count] : counts) {
      names.push_back(row);
      numbers.push_back(count.first);
      updated.push_back(count.second);
    }
    const auto bytes = [](const auto& v) {
      return std::span(reinterpret_cast<const uint8_t*>(v.data()), v.size() * sizeof(v[0]));
    };
    REQUIRE((*restored)
                ->FillTables([&](const ShardInfo&, Tablet::RowAdder, Tablet::RowAdder add_counts) {
                  return add_counts(
                      names, std::vector<std::span<const uint8_t>>{bytes(numbers), bytes(updated)});
                })
                .ok());
  }
  CHECK(most >= 15);
  CHECK(limited);
}

TEST_CASE("a table takes only rows") {
  TestTablet table(OneShard(kTableRows, Sgd(0.1)), 256);
  TestPush dense(1);
  dense.Dense<float>(0, std::vector<float>(6, 1));
  CHECK(table.Push(dense).status() == v1::INVALID);
  PullEntryView whole;
  v1::PullResult result;
  table.PullSlices({whole}, &result);
  CHECK(result.status() == v1::INVALID);
  TestPush outside(2);
  outside.Sparse<float>(0, {kTableRows}, std::vector<float>(kWidth, 1));
  CHECK(table.Push(outside).status() == v1::INVALID);
}

}  // namespace
}  // namespace cohort::ps_test
