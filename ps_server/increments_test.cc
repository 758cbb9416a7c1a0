// Increments of checkpoints: read with their bases, they are full checkpoints of the same state.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_names.h"
#include "common/tablet/checkpoint_store.h"
#include "common/tablet/tablet_test_util.h"
#include "common/tensor/table_rows.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort::ps_test {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::Message;
using testing::TestDirectory;

constexpr int64_t kRows = 300;
constexpr int64_t kKeys = 80;
constexpr int64_t kWidth = 3;

v1::VariableSpec ByRows(const std::string& name, int64_t rows) {
  v1::VariableSpec variable = Variable(name, {rows, kWidth}, 1);
  variable.set_row_reads(true);
  return variable;
}

// A dense range and a table, which steps read by rows, and a bias, each but the last in three
// shards. All are in one tablet.
v1::Layout Rows(const v1::OptimizerSpec& optimizer, const v1::TableSpec& rules, int shards = 3) {
  std::vector<v1::VariableSpec> variables = {ByRows("range", kRows), ByRows("table", kTableRows),
                                             Variable("bias", {5})};
  *variables[1].mutable_table() = rules;
  v1::Layout layout = Layout(variables, optimizer, shards);
  for (v1::ShardSpec& shard : *layout.mutable_shards()) shard.set_tablet(0);
  layout.clear_tablets();
  layout.add_tablets();
  return layout;
}

using Table = std::map<int64_t, std::vector<std::vector<uint8_t>>>;

// What a checkpoint has of a table between two rows.
Table TableOf(const CheckpointReader& reader, const std::string& keys,
              const std::vector<std::string>& slots, uint64_t begin, uint64_t rows) {
  Table table;
  int64_t last = -1;
  const absl::Status read = reader.ReadTable(
      "table", keys, slots, begin, rows,
      [&](std::span<const int64_t> some, std::span<const std::span<const uint8_t>> tensors) {
        REQUIRE(tensors.size() == slots.size());
        for (size_t i = 0; i < some.size(); ++i) {
          REQUIRE(some[i] > last);
          last = some[i];
          auto& items = table[some[i]];
          for (const auto& tensor : tensors) {
            const size_t bytes = tensor.size() / some.size();
            items.emplace_back(tensor.begin() + static_cast<int64_t>(i * bytes),
                               tensor.begin() + static_cast<int64_t>((i + 1) * bytes));
          }
        }
        return absl::OkStatus();
      });
  INFO(read);
  REQUIRE(read.ok());
  return table;
}

void CheckSame(const CheckpointReader& a, const CheckpointReader& b, std::mt19937* random) {
  REQUIRE(a.tensors().size() == b.tensors().size());
  for (const auto& [key, tensor] : a.tensors()) {
    CAPTURE(key.first, key.second);
    if (IsTable(tensor.dims)) continue;
    const uint64_t rows = RowsOf(tensor.dims);
    const uint64_t begin = (*random)() % rows;
    const uint64_t count = 1 + (*random)() % (rows - begin);
    for (const auto& [first, some] : {std::pair(uint64_t{0}, rows), std::pair(begin, count)}) {
      const size_t bytes = static_cast<size_t>(NumElements(PieceDims(tensor.dims, some))) * 4;
      std::vector<uint8_t> left(bytes), right(bytes);
      REQUIRE(a.ReadRows(key.first, key.second, tensor.dtype, first, some, left).ok());
      REQUIRE(b.ReadRows(key.first, key.second, tensor.dtype, first, some, right).ok());
      REQUIRE(left == right);
    }
  }
  std::vector<std::string> slots = {""};
  for (const std::string& slot : a.Slots("table")) {
    const bool counts = slot == kCountedKeysSlot || slot == kCountsSlot || slot == kCountedSlot;
    if (slot != kKeysSlot && !counts) slots.push_back(slot);
  }
  const uint64_t part = uint64_t{kTableRows} / 7;
  for (const auto& [first, rows] : {std::pair(uint64_t{0}, uint64_t{kTableRows}),
                                    std::pair(part * ((*random)() % 5), part * 2 + 12345)}) {
    REQUIRE(TableOf(a, kKeysSlot, slots, first, rows) == TableOf(b, kKeysSlot, slots, first, rows));
    const std::vector<std::string> counts = {kCountsSlot, kCountedSlot};
    REQUIRE(TableOf(a, kCountedKeysSlot, counts, first, rows) ==
            TableOf(b, kCountedKeysSlot, counts, first, rows));
  }
  REQUIRE(*a.TableSize("table") == *b.TableSize("table"));
}

std::vector<std::string> Names(const std::string& directory) {
  const auto entries = ListCheckpoints(directory);
  REQUIRE(entries.ok());
  std::vector<std::string> names;
  for (const CheckpointEntry& entry : *entries) names.push_back(entry.id.ToString());
  return names;
}

// A tablet that is trained, and writes each state twice: as an increment if it can, and whole.
class Trainer {
 public:
  Trainer(v1::Layout layout, uint32_t seed)
      : layout_(std::move(layout)), tablet_(layout_), random_(seed) {}

  std::mt19937& random() { return random_; }
  const std::string increments() const { return increments_.path(); }

  // Updates `rows` rows of each variable.
  void Train(int rows, PushKind kind = PushKind::kGradient) {
    TestPush push(++closure_);
    for (const v1::ShardSpec& shard : layout_.shards()) {
      const auto& variable = layout_.variables(static_cast<int>(shard.variable()));
      if (!variable.row_reads()) {
        push.Dense<float>(shard.shard(), Numbers(shard.rows()));
        continue;
      }
      std::set<int64_t> keys;
      for (int i = 0; i < rows; ++i) {
        const int64_t row = shard.variable() == 1
                                ? RowOfKey(static_cast<int64_t>(random_() % kKeys))
                                : static_cast<int64_t>(random_() % kRows);
        const auto in_shard = static_cast<uint64_t>(row) - shard.row_begin();
        if (in_shard < shard.rows()) keys.insert(static_cast<int64_t>(in_shard));
      }
      if (keys.empty()) continue;
      push.Sparse<float>(shard.shard(), {keys.begin(), keys.end()}, Numbers(keys.size() * kWidth),
                         kind);
      if (kind == PushKind::kEma) push.last().momentum = 0.5;
    }
    REQUIRE(tablet_.Push(push).status() == v1::APPLIED);
  }
  // A gradient of the whole dense range, as a regularizer makes.
  void TrainWhole() {
    TestPush push(++closure_);
    for (const v1::ShardSpec& shard : layout_.shards()) {
      if (shard.variable() == 0) push.Dense<float>(shard.shard(), Numbers(shard.rows() * kWidth));
    }
    REQUIRE(tablet_.Push(push).status() == v1::APPLIED);
  }

  // Takes a snapshot and writes it. Returns the name; the manifest is committed unless `fails`.
  std::string Cut(const std::string& base, bool fails = false) {
    v1::Manifest manifest;
    manifest.set_timeline(1);
    manifest.set_generation(1);
    manifest.set_cut(++cut_);
    const std::string name = IdOf(manifest).ToString();
    *manifest.mutable_layout() = layout_;
    auto snapshot = tablet_->Snapshot(0, {.checkpoint = name, .base = base, .increments = true});
    REQUIRE(snapshot.ok());
    TabletSnapshot whole;
    whole.cut->CopyFrom(*snapshot->cut);
    whole.shards = snapshot->shards;
    for (ShardSnapshot& shard : whole.shards) shard.changes = nullptr;
    *manifest.add_tablets() = *snapshot->cut;
    Write(*std::move(snapshot), increments_ / name, base, manifest, fails);
    Write(std::move(whole), full_ / name, "", manifest, fails);
    return name;
  }
  void Check(const std::string& name) {
    const auto left = Open(increments_ / name);
    const auto right = Open(full_ / name);
    CHECK(right->base() == nullptr);
    CheckSame(*left, *right, &random_);
  }
  static std::unique_ptr<CheckpointReader> Open(const std::string& path) {
    auto reader = CheckpointReader::Open(path, {});
    INFO(reader.status());
    REQUIRE(reader.ok());
    return *std::move(reader);
  }
  uint64_t BytesOf(const std::string& name) const {
    return fs::file_size(increments_ / name + "/ps-0.safetensors");
  }

 private:
  std::vector<float> Numbers(size_t count) {
    std::vector<float> numbers;
    for (size_t i = 0; i < count; ++i) {
      numbers.push_back(static_cast<float>(random_() % 100) / 50 - 1);
    }
    return numbers;
  }
  static void Write(TabletSnapshot snapshot, const std::string& path, const std::string& base,
                    v1::Manifest manifest, bool fails) {
    SnapshotJob job;
    job.directory = path;
    job.tablets.push_back(std::move(snapshot));
    CheckpointStore store;
    const auto files = store.Write(&job);
    INFO(files.status());
    REQUIRE(files.ok());
    if (fails) return;
    *manifest.add_files() = files->at(0);
    if (files->at(0).increment()) manifest.set_base(base);
    REQUIRE(CommitManifest(path, manifest).ok());
  }

  const v1::Layout layout_;
  TestTablet tablet_;
  std::mt19937 random_;
  const TestDirectory increments_, full_;
  uint64_t closure_ = 0;
  uint64_t cut_ = 0;
};

TEST_CASE("increments with their bases are full checkpoints, whatever fails between them") {
  v1::TableSpec rules;
  std::string optimizer = "Adagrad", update = "lazy";
  bool increments = true;
  SECTION("a table that keeps its rows") {}
  SECTION("admission, age and a limit") {
    rules.set_min_count(2);
    rules.set_evict_after_steps(12);
    rules.set_max_rows(40);
  }
  SECTION("rows that are small, and slots that begin as copies") {
    rules.set_evict_below_l2(0.8);
    rules.set_evict_after_steps(30);
    optimizer = "Adam";
  }
  SECTION("updates of all rows") {
    optimizer = "Adam";
    update = "keras";
    increments = false;
  }
  for (uint32_t seed = 1; seed <= 2; ++seed) {
    CAPTURE(seed);
    Trainer trainer(Rows(OptimizerOf(optimizer, {{"learning_rate", ConfigOf(0.1)}}, update), rules),
                    seed);
    auto& random = trainer.random();
    std::string committed, before;
    size_t with_base = 0;
    for (int cut = 0; cut < 25; ++cut) {
      for (uint32_t step = random() % 8; step > 0; --step) {
        trainer.Train(static_cast<int>(random() % 6));
        if (random() % 8 == 0) trainer.Train(2, PushKind::kAssignAdd);
        if (random() % 8 == 0) trainer.Train(2, PushKind::kEma);
        if (random() % 40 == 0) trainer.TrainWhole();
      }
      // The chief may not know that a checkpoint was committed late, and names the one before.
      std::string base = random() % 6 == 0 ? before : committed;
      if (random() % 10 == 0) base = "";
      if (random() % 15 == 0) base = "ckpt-1-1-9999";  // nobody knows what has changed since then
      const bool fails = random() % 4 == 0;
      const std::string name = trainer.Cut(base, fails);
      if (fails) continue;
      before = std::exchange(committed, name);
      trainer.Check(name);
      with_base += Trainer::Open(trainer.increments() + "/" + name)->base() != nullptr ? 1 : 0;
    }
    CHECK((with_base > 5) == increments);
    for (const std::string& name : Names(trainer.increments())) trainer.Check(name);
  }
}

TEST_CASE("the bytes of an increment follow from what has changed") {
  Trainer trainer(Rows(OptimizerOf("Adagrad", {}, "lazy"), {}), 1);
  for (int i = 0; i < 40; ++i) trainer.Train(20);
  const std::string full = trainer.Cut("");
  const std::string same = trainer.Cut(full);
  trainer.Train(1);
  const std::string one = trainer.Cut(same);
  // Names of tensors take most of the bytes.
  CHECK(trainer.BytesOf(same) < trainer.BytesOf(full) / 2);
  CHECK(trainer.BytesOf(one) < trainer.BytesOf(same) + 400);
  trainer.Check(same);
  trainer.Check(one);
  // Most rows have changed: then all of them are in the file.
  for (int i = 0; i < 40; ++i) trainer.Train(40);
  const std::string most = trainer.Cut(one);
  CHECK(Trainer::Open(trainer.increments() + "/" + most)->base() == nullptr);
  trainer.Check(most);
}

TEST_CASE("a member of a chain that is damaged or missing is named, and an older one is restored") {
  Trainer trainer(Rows(OptimizerOf("Adagrad", {}, "lazy"), {}), 1);
  std::vector<std::string> chain;
  for (int cut = 0; cut < 6; ++cut) {
    trainer.Train(8);
    chain.push_back(trainer.Cut(cut == 3 || cut == 0 ? "" : chain.back()));
  }
  const std::string directory = trainer.increments();
  std::string refused;
  const auto newest = [&] {
    refused.clear();
    const auto found =
        NewestValid(directory, [&](const std::string& path, const absl::Status& why) {
          refused += path + ": " + Message(why) + "\n";
        });
    REQUIRE(found.ok());
    REQUIRE(found->has_value());
    return (*found)->id.ToString();
  };
  CHECK(newest() == chain[5]);
  const std::string file = directory + "/" + chain[4] + "/ps-0.safetensors";
  std::string bytes = testing::ReadAllBytes(file);
  SECTION("damaged") {
    bytes[bytes.size() - 1] ^= 1;
    testing::WriteAllBytes(file, bytes);
    CHECK(newest() == chain[3]);
    CHECK(Contains(refused, chain[5] + " is an increment of " + chain[4]));
    CHECK(Contains(refused, file));
    const auto opened = CheckpointReader::Open(directory + "/" + chain[5], {});
    CHECK(absl::IsDataLoss(opened.status()));
    CHECK(Contains(Message(opened.status()), file));
  }
  SECTION("missing") {
    REQUIRE(DeleteCheckpoint(directory + "/" + chain[4]).ok());
    CHECK(newest() == chain[3]);
    CHECK(Contains(refused,
                   chain[5] + " is an increment of " + chain[4] + ", which is missing or damaged"));
  }
  SECTION("the full one of the newest chain") {
    REQUIRE(DeleteCheckpoint(directory + "/" + chain[3]).ok());
    CHECK(newest() == chain[2]);
    CHECK(Contains(refused, chain[3]));
  }
}

TEST_CASE("no change of an increment's bytes makes a reader crash") {
  v1::TableSpec rules;
  rules.set_min_count(2);
  rules.set_evict_after_steps(12);
  Trainer trainer(Rows(OptimizerOf("Adagrad", {}, "lazy"), rules, /*shards=*/1), 1);
  for (int i = 0; i < 20; ++i) trainer.Train(20);
  const std::string full = trainer.Cut("");
  trainer.Train(10);
  const std::string increment = trainer.increments() + "/" + trainer.Cut(full);
  const std::string file = increment + "/ps-0.safetensors";
  const std::string good = testing::ReadAllBytes(file);
  // Checksums of files are not compared, as in a server that restores.
  const auto read = [&] {
    const auto reader = CheckpointReader::Open(increment, {.verify_checksums = false});
    if (!reader.ok()) return reader.status();
    std::vector<uint8_t> rows(kRows * kWidth * sizeof(float));
    COHORT_RETURN_IF_ERROR((*reader)->ReadRows("range", "", DType::kFloat32, 0, kRows, rows));
    const std::string slots[] = {"", "accumulator"};
    const auto ignore = [](auto, auto) { return absl::OkStatus(); };
    COHORT_RETURN_IF_ERROR(
        (*reader)->ReadTable("table", kKeysSlot, slots, 7, uint64_t{kTableRows} / 2, ignore));
    std::vector<int64_t> removed;
    return (*reader)->ReadChanges("table", ignore, &removed).status();
  };
  REQUIRE(Trainer::Open(increment)->base() != nullptr);
  INFO(read());
  REQUIRE(read().ok());
  std::mt19937 random(5);
  size_t refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = good;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      // Half of the changes are in the header.
      const size_t most = random() % 2 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 1500);
      bytes[random() % most] = static_cast<char>(random());
    }
    testing::WriteAllBytes(file, bytes);
    refused += read().ok() ? 0 : 1;
  }
  CHECK(refused > 500);
}

TEST_CASE("retention keeps what a kept checkpoint is an increment of") {
  Trainer trainer(Rows(OptimizerOf("Adagrad", {}, "lazy"), {}), 1);
  std::vector<std::string> chain;
  const auto retain = [&](const std::string& best) {
    REQUIRE(DeleteOldCheckpoints(trainer.increments(),
                                 {.max_to_keep = 2,
                                  .known_valid = CheckpointId::Parse(chain.back()),
                                  .best = CheckpointId::Parse(best)})
                .ok());
    for (const std::string& name : Names(trainer.increments())) trainer.Check(name);
  };
  for (int cut = 0; cut < 9; ++cut) {
    trainer.Train(8);
    chain.push_back(trainer.Cut(cut % 4 == 0 ? "" : chain.back()));
    if (cut < 5) retain("");
  }
  // 0 1 2 3 | 4 5 6 7 | 8: the newest two needed a full one when there were two increments.
  CHECK(Names(trainer.increments()) == std::vector<std::string>(chain.begin(), chain.end()));
  retain(chain[2]);
  CHECK(Names(trainer.increments()) == std::vector<std::string>{chain[0], chain[1], chain[2],
                                                                chain[4], chain[5], chain[6],
                                                                chain[7], chain[8]});
  retain("");
  CHECK(Names(trainer.increments()) == std::vector<std::string>(chain.begin() + 4, chain.end()));
}

// Not in a normal run: ps_server_test "[increments_bench]". COHORT_INCREMENT_GB: values and slots.
TEST_CASE("an increment after 1 % of the rows costs about 1 %", "[.][increments_bench]") {
  const char* const given = std::getenv("COHORT_INCREMENT_GB");
  const double gigabytes = given != nullptr ? std::atof(given) : 1;
  constexpr int64_t kBenchWidth = 16;
  const bool is_table = GENERATE(false, true);
  const auto rows = static_cast<int64_t>(gigabytes * 1e9 / (2 * kBenchWidth * sizeof(float)));
  v1::VariableSpec variable = Variable("w", {is_table ? kTableRows : rows, kBenchWidth}, 1);
  variable.set_row_reads(true);
  v1::Layout layout = Layout({variable}, OptimizerOf("Adagrad", {}, "lazy"));
  TestTablet tablet(layout, ShardOptions{});
  uint64_t closure = 0;
  const auto update = [&](std::vector<int64_t> keys) {
    std::ranges::sort(keys);
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    TestPush push(++closure);
    push.Sparse<float>(0, keys, std::vector<float>(keys.size() * kBenchWidth, 0.5F));
    REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  };
  const auto row_of = [&](int64_t i) { return is_table ? RowOfKey(i) : i; };
  constexpr int64_t kAtOnce = 100'000;
  for (int64_t begin = 0; is_table && begin < rows; begin += kAtOnce) {
    std::vector<int64_t> keys;
    for (int64_t i = begin; i < std::min(rows, begin + kAtOnce); ++i) keys.push_back(row_of(i));
    update(std::move(keys));
  }
  const TestDirectory directory;
  struct Cost {
    double seconds = 0, snapshot = 0, bytes = 0;
  };
  int cuts = 0;
  std::string last;
  const auto cut = [&](const std::string& base) {
    const std::string name = fmt::format("ckpt-1-1-{}", ++cuts);
    SnapshotJob job;
    job.directory = directory / name;
    const auto begin = std::chrono::steady_clock::now();
    job.tablets.push_back(
        *tablet->Snapshot(0, {.checkpoint = name, .base = base, .increments = true}));
    const auto taken = std::chrono::steady_clock::now();
    CheckpointStore store;
    const auto files = store.Write(&job);
    REQUIRE(files.ok());
    CHECK(files->at(0).increment() == !base.empty());
    const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
    const std::chrono::duration<double> snapshot = taken - begin;
    last = name;
    return Cost{all.count(), snapshot.count(), static_cast<double>(files->at(0).bytes())};
  };
  const Cost full = cut("");
  fs::remove(directory / last + "/ps-0.safetensors");
  std::mt19937_64 random(1);
  for (const int64_t per_mille : {10, 1}) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < rows * per_mille / 1000; ++i) {
      keys.push_back(row_of(static_cast<int64_t>(random() % static_cast<uint64_t>(rows))));
    }
    update(std::move(keys));
    const Cost increment = cut(last);
    WARN(fmt::format(
        "{}, {} rows of {} floats with a slot: full {:.2f} GB in {:.2f} s; {} % changed: {:.2f} % "
        "of "
        "the bytes, {:.2f} % of the time ({:.3f} s, of these the snapshot {:.1f} ms)",
        is_table ? "table" : "range", rows, kBenchWidth, full.bytes / 1e9, full.seconds,
        static_cast<double>(per_mille) / 10, 100 * increment.bytes / full.bytes,
        100 * increment.seconds / full.seconds, increment.seconds, 1000 * increment.snapshot));
    CHECK(increment.bytes < full.bytes * static_cast<double>(per_mille) / 1000 * 1.1);
  }
}

}  // namespace
}  // namespace cohort::ps_test
