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
  for (const char* const name : {"SGD", "Adagrad", "Adam", "Ftrl"}) {
    for (const char* const update : {"keras", "lazy"}) {
      // Without a gradient, Ftrl makes a row that nothing has updated zeros.
      if (name == std::string("Ftrl") && update == std::string("keras")) continue;
      CAPTURE(name, update);
      const v1::OptimizerSpec optimizer =
          OptimizerOf(name, {{"learning_rate", ConfigOf(0.1)}}, update);
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
