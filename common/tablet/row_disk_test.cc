// Rows of tables on disk, and tables whose rows lie there.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>

#include "common/os/directory.h"
#include "common/tablet/row_tier.h"
#include "common/tablet/snapshot_rows.h"
#include "common/tablet/tablet_test_util.h"
#include "common/tensor/table_rows.h"
#include "common/testing/directory_test_util.h"

namespace cohort::ps_test {
namespace {

constexpr int64_t kTierWidth = 4;

std::shared_ptr<RowDisk> Disk(uint64_t bytes, const std::string& parent = "") {
  auto disk = RowDisk::Create({.parent = parent, .memory_bytes = bytes, .server = "ps:0"});
  INFO(disk.status());
  REQUIRE(disk.ok());
  return *std::move(disk);
}

// Records of `bytes` bytes whose last byte is that of the row, with these clocks.
std::vector<uint8_t> Records(const std::vector<int64_t>& rows, const std::vector<uint64_t>& clocks,
                             size_t bytes) {
  std::vector<uint8_t> records(rows.size() * bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(records.data() + i * bytes + row_record::kClockAt, &clocks[i], sizeof(clocks[i]));
    records[(i + 1) * bytes - 1] = static_cast<uint8_t>(rows[i]);
  }
  return records;
}

std::vector<int64_t> RowsOf(const RowView& view) {
  std::vector<int64_t> rows;
  const auto cursor = view.Rows();
  while (cursor->Next()) rows.push_back(cursor->row());
  CHECK(cursor->status().ok());
  return rows;
}

TEST_CASE("a tier keeps the rows of its shard, and a view those of its moment") {
  const auto disk = Disk(1 << 20);
  const auto tier = disk->AddTable(7, 12, /*keeps_clocks=*/true);
  const auto other = disk->AddTable(8, 12, /*keeps_clocks=*/true);
  const std::vector<int64_t> rows = {5, 300, kTableRows - 1, 70'000};
  const std::vector<uint64_t> clocks = {9, 3, 3, 4};
  REQUIRE(tier->Put(rows, Records(rows, clocks, 12)).ok());
  REQUIRE(other->Put(std::vector<int64_t>{6}, Records({6}, {1}, 12)).ok());
  CHECK(tier->rows() == 4);
  CHECK(disk->rows() == 5);
  std::vector<uint8_t> records;
  std::vector<uint8_t> found;
  REQUIRE(tier->Read(std::vector<int64_t>{300, 6, 5}, &records, &found).ok());
  CHECK(found == std::vector<uint8_t>{1, 0, 1});
  CHECK(row_record::ClockOf(records.data()) == 3);
  CHECK(records[2 * 12 + 11] == 5);

  const auto view = tier->View();
  CHECK(*tier->Oldest(0, 3) ==
        std::vector<std::pair<uint64_t, int64_t>>{{3, 300}, {3, kTableRows - 1}, {4, 70'000}});
  CHECK(tier->Oldest(4, 10)->size() == 2);
  REQUIRE(tier->Remove(std::vector<int64_t>{300, 5}, std::vector<uint64_t>{3, 9}).ok());
  CHECK(tier->rows() == 2);
  CHECK(RowsOf(*tier->View()) == std::vector<int64_t>{70'000, kTableRows - 1});
  CHECK(RowsOf(*view) == std::vector<int64_t>{5, 300, 70'000, kTableRows - 1});
  CHECK(view->rows() == 4);
  CHECK(*view->CountOlder(4) == 2);
  CHECK(RowsOf(*other->View()) == std::vector<int64_t>{6});
}

TEST_CASE("each server has its directory, which is gone after its end") {
  const cohort::testing::TestDirectory parent;
  std::string first;
  std::string host;  // what the names of the host's directories begin with
  {
    const auto disk = Disk(1 << 20, parent.path());
    const auto beside = Disk(1 << 20, parent.path());
    first = disk->directory();
    host = first.substr(0, first.rfind('.'));
    CHECK(first.starts_with(parent.path()));
    CHECK(first != beside->directory());
    CHECK(std::filesystem::exists(first));
    CHECK(std::filesystem::exists(beside->directory()));
  }
  CHECK(std::filesystem::is_empty(parent.path()));
  // What a killed server has left. One of another host may be alive, though nothing locks it here.
  const std::string others = parent.path() + "/cohort-rows.0123456789abcdef.abcdef";
  std::filesystem::create_directories(host + ".abcdef/rocksdb");
  std::filesystem::create_directories(others + "/rocksdb");
  std::filesystem::create_directories(parent.path() + "/another");
  const auto disk = Disk(1 << 20, parent.path());
  CHECK_FALSE(std::filesystem::exists(host + ".abcdef"));
  CHECK(std::filesystem::exists(others + "/rocksdb"));
  CHECK(std::filesystem::exists(parent.path() + "/another"));
}

// Sets an environment variable while it exists.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~ScopedVariable() {
    if (before_.has_value()) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST_CASE("rows lie in memory only in a directory that the user names") {
  REQUIRE(IsInMemory("/dev/shm"));
  const bool has_disk = !IsInMemory("/var/tmp");
  const ScopedVariable in_memory("TMPDIR", "/dev/shm");
  const auto disk = Disk(1 << 20);
  CHECK(disk->directory().starts_with(has_disk ? "/var/tmp/" : "/dev/shm/"));
  CHECK(disk->in_memory() == !has_disk);
  const auto named = Disk(1 << 20, "/dev/shm");
  CHECK(named->directory().starts_with("/dev/shm/"));
  CHECK(named->in_memory());
  const ScopedVariable on_disk("TMPDIR", "/var/tmp");
  CHECK(Disk(1 << 20)->directory().starts_with("/var/tmp/"));
}

TEST_CASE("a directory that cannot be made is an error that names it") {
  const auto disk = RowDisk::Create({.parent = "/proc/no", .memory_bytes = 1, .server = "ps:3"});
  REQUIRE_FALSE(disk.ok());
  CHECK(disk.status().ToString().find("/proc/no") != std::string::npos);
}

TEST_CASE("a table that takes more than its part of a full memory must shrink") {
  TableMemory memory(1000);
  memory.AddTable();
  memory.AddTable();
  memory.Note(0, 800);
  CHECK(memory.MayGrow(800, 200));
  CHECK_FALSE(memory.MayGrow(800, 201));
  CHECK(memory.MayGrow(0, 400));  // below its half
  memory.Note(0, 400);
  CHECK(memory.MustShrink(800));
  CHECK_FALSE(memory.MustShrink(400));
}

v1::Layout OneTable(const v1::TableSpec& rules, const v1::OptimizerSpec& optimizer) {
  v1::Layout layout;
  v1::VariableSpec variable = Variable("w", {kTableRows, kTierWidth});
  variable.set_row_reads(true);
  variable.mutable_initializer()->set_class_name("RandomUniform");
  variable.mutable_initializer()->set_minval(-1);
  variable.mutable_initializer()->set_maxval(1);
  variable.mutable_initializer()->set_seed(5);
  *variable.mutable_table() = rules;
  *layout.add_variables() = variable;
  layout.add_shards()->set_rows(static_cast<uint64_t>(kTableRows));
  layout.add_tablets();
  *layout.add_optimizers() = optimizer;
  return layout;
}

void PushRandom(uint64_t step, int64_t keys, std::mt19937* random,
                std::initializer_list<TestTablet*> tablets) {
  std::map<int64_t, std::vector<float>> rows;
  for (int i = 0; i < 30; ++i) {
    // Some keys are frequent.
    const int64_t key =
        static_cast<int64_t>((*random)() % 3 == 0 ? (*random)() % 20 : (*random)() % keys);
    std::vector<float>& row = rows[RowOfKey(key)];
    row.clear();
    for (int64_t c = 0; c < kTierWidth; ++c) {
      row.push_back(static_cast<float>((*random)() % 100) / 50 - 1);
    }
  }
  std::vector<int64_t> names;
  std::vector<float> values;
  for (const auto& [row, numbers] : rows) {
    names.push_back(row);
    values.insert(values.end(), numbers.begin(), numbers.end());
  }
  for (TestTablet* const tablet : tablets) {
    TestPush push(step);
    push.Sparse<float>(0, names, values);
    // Another client may send parts that are not sorted.
    if (step % 5 == 0) push.Sparse<float>(0, {names[3], names[0]}, std::vector<float>(8, 0.25f));
    const v1::PushResult result = tablet->Push(push);
    INFO(result.message());
    REQUIRE(result.status() == v1::APPLIED);
  }
}

// All that a checkpoint has of the table.
struct Contents {
  std::vector<int64_t> rows;
  std::vector<uint64_t> clocks;
  std::vector<float> tensors;

  bool operator==(const Contents&) const = default;
};

Contents ContentsOf(const TabletSnapshot& snapshot) {
  const ShardSnapshot& shard = snapshot.shards[0];
  const auto count = SnapshotRows::Count(shard);
  REQUIRE(count.ok());
  Contents contents;
  const SnapshotRows rows(shard);
  SnapshotRows::Walk walk(rows);
  while (walk.Next()) {
    contents.rows.push_back(walk.row());
    if (shard.rules->needs_clocks()) contents.clocks.push_back(walk.clock());
    for (int slot = -1; slot < static_cast<int>(shard.info->slots.size()); ++slot) {
      const auto* const from = reinterpret_cast<const float*>(walk.Tensor(slot));
      contents.tensors.insert(contents.tensors.end(), from, from + kTierWidth);
    }
  }
  REQUIRE(walk.status().ok());
  CHECK(contents.rows.size() == *count);
  CHECK(std::ranges::is_sorted(contents.rows));
  return contents;
}

v1::TableSpec Rules(uint64_t min_count, uint64_t evict_after, double below, uint64_t max_rows) {
  v1::TableSpec rules;
  rules.set_min_count(min_count);
  rules.set_evict_after_steps(evict_after);
  rules.set_evict_below_l2(below);
  rules.set_max_rows(max_rows);
  return rules;
}

TEST_CASE("a table has the same bits wherever its rows lie") {
  constexpr int64_t kKeys = 1500;
  const auto [name, rules] = GENERATE(
      std::pair{"plain", Rules(0, 0, 0, 0)}, std::pair{"evict_after", Rules(0, 25, 0, 0)},
      std::pair{"max_rows", Rules(0, 0, 0, 700)}, std::pair{"all", Rules(2, 60, 0.4, 500)});
  const std::string optimizer = GENERATE("Adagrad", "Adam", "Ftrl");
  CAPTURE(name, optimizer);
  const v1::Layout layout =
      OneTable(rules, OptimizerOf(optimizer, {{"learning_rate", ConfigOf(0.1)}}, "lazy"));
  const auto disk = Disk(16'000);
  TestTablet memory(layout, 256);
  TestTablet tiered(layout, ShardOptions{.block_bytes = 128, .disk = disk.get()});
  std::vector<int64_t> rows;
  for (int64_t key = 0; key < kKeys; ++key) rows.push_back(RowOfKey(key));
  std::mt19937 random(3);
  std::vector<std::pair<TabletSnapshot, Contents>> snapshots;
  uint64_t most_on_disk = 0;
  for (uint64_t step = 0; step < 250; ++step) {
    PushRandom(step, kKeys, &random, {&memory, &tiered});
    most_on_disk = std::max(most_on_disk, disk->rows());
    if (step % 10 == 0) REQUIRE(tiered.PullRows(0, rows) == memory.PullRows(0, rows));
    if (step % 40 == 17) {
      TabletSnapshot now = *tiered->Snapshot(0);
      Contents contents = ContentsOf(*memory->Snapshot(0));
      REQUIRE(ContentsOf(now) == contents);
      snapshots.emplace_back(std::move(now), std::move(contents));
    }
  }
  // Later updates have not changed the snapshots.
  for (const auto& [snapshot, contents] : snapshots) CHECK(ContentsOf(snapshot) == contents);
  CHECK(most_on_disk > (rules.max_rows() > 0 || rules.evict_after_steps() > 0 ? 100 : 800));
  CHECK(disk->rows_in_memory()->load() < 400);
  CHECK(disk->rows_in_memory()->load() > 0);
}

TEST_CASE("rows of a checkpoint that do not fit into memory go to the disk") {
  const v1::Layout layout = OneTable(
      Rules(0, 1000, 0, 0), OptimizerOf("Adagrad", {{"learning_rate", ConfigOf(0.1)}}, "lazy"));
  TestTablet memory(layout, 256);
  std::mt19937 random(9);
  for (uint64_t step = 0; step < 200; ++step) PushRandom(step, 3000, &random, {&memory});
  const Contents contents = ContentsOf(*memory->Snapshot(0));
  const auto disk = Disk(16'000);
  TestTablet restored(layout, ShardOptions{.block_bytes = 128, .disk = disk.get()});
  v1::AppliedSetProto none;
  REQUIRE(restored->Restore(none, 200).ok());
  REQUIRE(restored
              ->FillTables([&](const ShardInfo&, Tablet::RowAdder add, Tablet::RowAdder) {
                std::vector<std::vector<float>> tensors(2);
                for (size_t i = 0; i < contents.rows.size() * 2; ++i) {
                  const auto from = contents.tensors.begin() + static_cast<int64_t>(i) * kTierWidth;
                  tensors[i % 2].insert(tensors[i % 2].end(), from, from + kTierWidth);
                }
                const auto bytes = [](const auto& v) {
                  return std::span(reinterpret_cast<const uint8_t*>(v.data()),
                                   v.size() * sizeof(v[0]));
                };
                return add(contents.rows,
                           std::vector<std::span<const uint8_t>>{
                               bytes(tensors[0]), bytes(tensors[1]), bytes(contents.clocks)});
              })
              .ok());
  CHECK(disk->rows() > contents.rows.size() / 2);
  CHECK(ContentsOf(*restored->Snapshot(0)) == contents);
  for (uint64_t step = 200; step < 260; ++step)
    PushRandom(step, 3000, &random, {&memory, &restored});
  CHECK(ContentsOf(*restored->Snapshot(0)) == ContentsOf(*memory->Snapshot(0)));
}

TEST_CASE("a table on disk refuses an optimizer that changes all rows") {
  const v1::Layout layout =
      OneTable({}, OptimizerOf("Adam", {{"learning_rate", ConfigOf(0.1)}}, "keras"));
  const auto disk = Disk(16'000);
  auto rules = LayoutRules::Create(layout);
  REQUIRE(rules.ok());
  const auto pool = BufferPool::Create(0);
  Tablet::Options options;
  options.shard.disk = disk.get();
  const auto tablet = Tablet::Create(layout, *std::move(rules), pool.get(), options);
  REQUIRE_FALSE(tablet.ok());
  CHECK(tablet.status().ToString().find("sparse_update: lazy") != std::string::npos);
}

TEST_CASE("what a table takes beside its values counts, and counts of rows have a limit") {
  v1::TableSpec rules;
  rules.set_min_count(1000);
  TestTablet table(OneTable(rules, Sgd(0.1)), 256);
  std::mt19937_64 random(1);
  uint64_t most = 0;
  // A shard with a small part of the rows would have a lower limit; here it is that of one part.
  for (uint64_t step = 0; step < 20; ++step) {
    std::vector<int64_t> rows;
    for (int i = 0; i < 20'000; ++i) rows.push_back(static_cast<int64_t>(random() >> 18) * 65536);
    std::ranges::sort(rows);
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    TestPush push(step);
    push.Sparse<float>(0, rows, std::vector<float>(rows.size() * kTierWidth, 1));
    REQUIRE(table.Push(push).status() == v1::APPLIED);
    most = std::max(most, table->bytes());
  }
  // All of these rows have their counts in one part of 256.
  const uint64_t counts = TableRows::kMostCounts / TableRows::kParts;
  CHECK(most >= counts * 24);
  CHECK(most < counts * 24 * 5);
  const TabletSnapshot snapshot = *table->Snapshot(0);
  size_t counted = 0;
  for (const auto& part : snapshot.shards[0].counts) counted += part->size();
  CHECK(counted <= counts);
  CHECK(counted >= counts / 2);
}

}  // namespace
}  // namespace cohort::ps_test
