// What a tablet tells of the rows that it has and that steps ask for, and rows by hash.
#include "common/tablet/row_traffic.h"

#include <numeric>

#include "common/row_figures/row_figures.h"
#include "common/tablet/tablet_test_util.h"

namespace cohort::ps_test {
namespace {

constexpr int64_t kIdWidth = 2;

v1::VariableSpec RowVariable(int64_t rows) {
  v1::VariableSpec variable = Variable("ids", {rows, kIdWidth}, 0);
  variable.mutable_initializer()->set_class_name("RandomUniform");
  variable.mutable_initializer()->set_minval(-1);
  variable.mutable_initializer()->set_maxval(1);
  variable.mutable_initializer()->set_seed(5);
  variable.set_row_reads(true);
  return variable;
}

void PushIds(TestTablet* tablet, uint64_t closure, const std::vector<int64_t>& rows) {
  TestPush push(closure);
  push.Sparse<float>(0, rows, std::vector<float>(rows.size() * kIdWidth, 0.5F));
  REQUIRE(tablet->Push(push).status() == v1::APPLIED);
}

v1::RowFigures RowFiguresOf(TestTablet* tablet) {
  v1::TaskFigures figures;
  (*tablet)->AddFigures(&figures);
  REQUIRE(figures.rows_size() == 1);
  return figures.rows(0);
}

TEST_CASE("a tablet counts the rows of a table without bounds") {
  v1::Layout layout;
  *layout.add_variables() = RowVariable(kTableRows);
  layout.mutable_variables(0)->mutable_table()->set_min_count(2);
  layout.mutable_variables(0)->mutable_table()->set_evict_after_steps(2);
  layout.add_shards()->set_rows(kTableRows);
  layout.add_tablets();
  *layout.add_optimizers() = Sgd(0.5);
  TestTablet tablet(layout);
  std::vector<int64_t> rows;
  for (int64_t key = 70; key < 80; ++key) rows.push_back(RowOfKey(key));
  std::ranges::sort(rows);
  PushIds(&tablet, 1, rows);
  CHECK(RowFiguresOf(&tablet).not_admitted() == 10);
  CHECK(RowFiguresOf(&tablet).rows() == 0);
  PushIds(&tablet, 2, rows);
  CHECK(RowFiguresOf(&tablet).made() == 10);
  CHECK(RowFiguresOf(&tablet).rows() == 10);
  CHECK(RowFiguresOf(&tablet).pushed() == 20);
  CHECK(RowFiguresOf(&tablet).bytes() == tablet->bytes());
  for (uint64_t closure = 3; closure < 9; ++closure) PushIds(&tablet, closure, {rows[0]});
  CHECK(RowFiguresOf(&tablet).evicted() == 9);
  CHECK(RowFiguresOf(&tablet).rows() == 1);

  // A key is that of the user. The sample has some of this many pulls, whatever it skips.
  for (uint64_t i = 0; i < 40 * HotKeys::kSampled; ++i) tablet.PullRows(0, {rows[3]});
  const v1::RowFigures figures = RowFiguresOf(&tablet);
  CHECK(figures.pulled() == 40 * HotKeys::kSampled);
  REQUIRE(figures.hot_size() == 1);
  CHECK(figures.hot(0).key() == KeyOfRow(rows[3]));
}

TEST_CASE("a refused push does not count, and whole variables are no rows") {
  v1::Layout layout = Layout({RowVariable(8)}, Sgd(0.5));
  TestTablet tablet(layout);
  TestPush wrong(1);
  wrong.Sparse<float>(0, {9}, {1, 2});
  CHECK(tablet.Push(wrong).status() == v1::INVALID);
  tablet.Pull(0);
  const v1::RowFigures figures = RowFiguresOf(&tablet);
  CHECK(figures.pushed() == 0);
  CHECK(figures.pulled() == 0);
  CHECK(figures.rows() == 8);
  CHECK(figures.hot_size() == 0);
}

TEST_CASE("shards that share rows by hash begin with the values of these rows") {
  constexpr int64_t kRows = 103, kShards = 4;
  TestTablet whole(Layout({RowVariable(kRows)}, Sgd(0.5)));
  v1::Layout layout = Layout({RowVariable(kRows)}, Sgd(0.5), kShards);
  layout.mutable_variables(0)->set_hashed_rows(true);
  REQUIRE(layout.tablets_size() == 1);
  TestTablet shards(layout);
  const HashedRows hashed(kRows, kShards);
  for (int64_t row = 0; row < kRows; ++row) {
    const HashedRows::Place place = hashed.PlaceOf(row);
    const auto shard = static_cast<uint32_t>(place.shard);
    REQUIRE(shards.PullRows(shard, {place.row}) == whole.PullRows(0, {row}));
  }
  // Row 77 is the hot one, whatever its number in its shard.
  const HashedRows::Place place = hashed.PlaceOf(77);
  for (uint64_t i = 0; i < 40 * HotKeys::kSampled; ++i) {
    shards.PullRows(static_cast<uint32_t>(place.shard), {place.row});
  }
  const v1::RowFigures figures = RowFiguresOf(&shards);
  CHECK(figures.rows() == kRows);
  CHECK(figures.pulled() == 40 * HotKeys::kSampled + kRows);
  REQUIRE(figures.hot_size() >= 1);
  CHECK(figures.hot(0).key() == 77);
}

}  // namespace
}  // namespace cohort::ps_test
