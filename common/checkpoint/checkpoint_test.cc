#include <catch2/catch.hpp>
#include <numeric>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/format_version.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/shard_names.h"
#include "common/tensor/table_rows.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

// Element [row, column] of "table" (10 x 3); the slot's are 1000 higher.
float Value(uint64_t row, uint64_t column, bool slot) {
  return static_cast<float>(row * 3 + column) + (slot ? 1000.0F : 0.0F);
}

// Writes rows [begin, end) of the table and its slot, in two files' worth of pieces.
v1::SnapshotFile WriteShard(const std::string& dir, const std::string& name, uint64_t begin,
                            uint64_t end, bool with_bias) {
  std::vector<SafetensorsWriter::Entry> entries;
  const Dims dims = {static_cast<int64_t>(end - begin), 3};
  entries.push_back({ShardTensorName{"table", "", begin, end}.ToString(), DType::kFloat32, dims});
  entries.push_back(
      {ShardTensorName{"table", "momentum", begin, end}.ToString(), DType::kFloat32, dims});
  if (with_bias) {
    entries.push_back({ShardTensorName{"bias", "", 0, 1}.ToString(), DType::kFloat64, {}});
  }
  auto writer = SafetensorsWriter::Create(JoinPath(dir, name), entries, {});
  REQUIRE(writer.ok());
  for (const bool slot : {false, true}) {
    for (uint64_t row = begin; row < end; ++row) {
      for (uint64_t column = 0; column < 3; ++column) {
        const float value = Value(row, column, slot);
        REQUIRE((*writer)->Append(&value, sizeof(value)).ok());
      }
    }
  }
  const double bias = 0.5;
  if (with_bias) REQUIRE((*writer)->Append(&bias, sizeof(bias)).ok());
  const auto result = (*writer)->Finish();
  REQUIRE(result.ok());
  v1::SnapshotFile file;
  file.set_name(name);
  file.set_bytes(result->bytes);
  file.set_crc32(result->crc32);
  return file;
}

// Writes a checkpoint of `table` cut at the given rows, and commits it.
std::string WriteCheckpoint(const std::string& directory, const CheckpointId& id,
                            const std::vector<uint64_t>& cuts, bool commit = true) {
  const std::string dir = JoinPath(directory, id.ToString());
  REQUIRE(MakeDirectories(dir).ok());
  v1::Manifest manifest;
  manifest.set_timeline(id.timeline);
  manifest.set_generation(id.generation);
  manifest.set_cut(id.cut);
  manifest.set_step(id.cut * 100);
  manifest.set_job("test \"job\" \xc3\xa4");
  v1::VariableSpec* table = manifest.mutable_layout()->add_variables();
  table->set_name("table");
  table->set_dtype(v1::FLOAT32);
  table->add_dims(10);
  table->add_dims(3);
  v1::VariableSpec* bias = manifest.mutable_layout()->add_variables();
  bias->set_name("bias");
  bias->set_dtype(v1::FLOAT64);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    *manifest.add_files() =
        WriteShard(dir, fmt::format("ps-{}.safetensors", i), cuts[i], cuts[i + 1], i == 0);
  }
  if (commit) REQUIRE(CommitManifest(dir, manifest).ok());
  return dir;
}

void Damage(const std::string& path, size_t at) {
  std::string bytes = testing::ReadAllBytes(path);
  REQUIRE(at < bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  testing::WriteAllBytes(path, bytes);
}

TEST_CASE("the names of checkpoints order them") {
  const CheckpointId id = {1, 2, 30};
  CHECK(id.ToString() == "ckpt-1-2-30");
  CHECK(CheckpointId::Parse("ckpt-1-2-30") == id);
  CHECK(CheckpointId{1, 9, 9} < CheckpointId{2, 0, 0});
  CHECK(CheckpointId{1, 2, 9} < CheckpointId{1, 3, 0});
  for (const char* bad : {"", "ckpt-", "ckpt-1-2", "ckpt-1-2-", "ckpt-1-2-3-4", "ckpt-01-2-3",
                          "ckpt-1-2-3.tmp", "ckpt--1-2-3", "ckpt-1-2-x"}) {
    CHECK(!CheckpointId::Parse(bad).has_value());
  }
}

TEST_CASE("any row range is read from any layout") {
  TestDirectory dir;
  for (const std::vector<uint64_t>& cuts :
       {std::vector<uint64_t>{0, 10}, {0, 5, 10}, {0, 1, 4, 10}, {0, 3, 3, 7, 10}}) {
    const std::string path = WriteCheckpoint(dir.path(), {0, 1, cuts.size()}, cuts);
    const auto reader = CheckpointReader::Open(path, {});
    REQUIRE(reader.ok());
    CHECK((*reader)->Slots("table") == std::vector<std::string>{"momentum"});
    CHECK((*reader)->Slots("bias").empty());
    CHECK((*reader)->Read("bias", "")->values<double>()[0] == 0.5);
    for (uint64_t begin = 0; begin <= 10; ++begin) {
      for (uint64_t end = begin; end <= 10; ++end) {
        for (const bool slot : {false, true}) {
          std::vector<float> rows((end - begin) * 3);
          REQUIRE((*reader)
                      ->ReadRows("table", slot ? "momentum" : "", DType::kFloat32, begin,
                                 end - begin,
                                 {reinterpret_cast<uint8_t*>(rows.data()), rows.size() * 4})
                      .ok());
          for (size_t i = 0; i < rows.size(); ++i) {
            REQUIRE(rows[i] == Value(begin + i / 3, i % 3, slot));
          }
        }
      }
    }
  }
}

TEST_CASE("a reader says what it does not have") {
  TestDirectory dir;
  const auto reader = CheckpointReader::Open(
      JoinPath(WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 4, 10}), kManifestName), {});
  REQUIRE(reader.ok());
  std::vector<uint8_t> out(12);
  CHECK(absl::IsNotFound((*reader)->ReadRows("nothing", "", DType::kFloat32, 0, 1, out)));
  CHECK(absl::IsNotFound((*reader)->ReadRows("table", "velocity", DType::kFloat32, 0, 1, out)));
  CHECK(absl::IsOutOfRange((*reader)->ReadRows("table", "", DType::kFloat32, 10, 1, out)));
  CHECK(
      absl::IsOutOfRange((*reader)->ReadRows("table", "", DType::kFloat32, 1, ~uint64_t{0}, out)));
  CHECK(absl::IsInvalidArgument((*reader)->ReadRows("table", "", DType::kFloat64, 0, 1, out)));
  CHECK(absl::IsInvalidArgument((*reader)->ReadRows("table", "", DType::kFloat32, 0, 2, out)));
}

TEST_CASE("rows that are missing or stored twice are found when a checkpoint is opened") {
  TestDirectory dir;
  const auto open = [&](const std::vector<std::pair<uint64_t, uint64_t>>& pieces) {
    const std::string path = WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10});
    v1::Manifest manifest = *ReadManifest(path);
    manifest.clear_files();
    int i = 0;
    for (const auto& [begin, end] : pieces) {
      *manifest.add_files() = WriteShard(path, fmt::format("x{}", i), begin, end, i == 0);
      ++i;
    }
    REQUIRE(CommitManifest(path, manifest).ok());
    return CheckpointReader::Open(path, {}).status();
  };
  CHECK(open({{5, 10}, {0, 5}}).ok());
  CHECK(Contains(testing::Message(open({{0, 5}, {6, 10}})), "rows [5, 6) of table are in no file"));
  CHECK(Contains(testing::Message(open({{0, 5}, {4, 10}})), "row 4 of table is stored twice"));
  CHECK(Contains(testing::Message(open({{0, 5}})), "rows [5, 10) of table are in no file"));
  CHECK(Contains(testing::Message(open({{0, 12}})), "its variable has [10, 3]"));
  CHECK(Contains(testing::Message(open({})), "are in no file"));
}

TEST_CASE("a manifest is JSON with the names of the proto and survives a round trip") {
  TestDirectory dir;
  const std::string path = WriteCheckpoint(dir.path(), {3, 2, 1}, {0, 10});
  const std::string json = testing::ReadAllBytes(JoinPath(path, "manifest.json"));
  CHECK(Contains(json, "\"format_version\": 1"));
  CHECK(Contains(json, "\"timeline\": \"3\""));
  const auto manifest = ReadManifest(path);
  REQUIRE(manifest.ok());
  CHECK(manifest->job() == "test \"job\" \xc3\xa4");
  CHECK(IdOf(*manifest) == CheckpointId{3, 2, 1});
  v1::Manifest bad = *manifest;
  bad.mutable_files(0)->set_name("../../etc/passwd");
  CHECK(absl::IsInvalidArgument(CommitManifest(path, bad)));
  CHECK(ReadManifest(path).ok());
}

TEST_CASE("damage anywhere is refused by name, and the checkpoint before it is used") {
  TestDirectory dir;
  WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10});
  const std::string newest = WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 5, 10});
  WriteCheckpoint(dir.path(), {0, 1, 3}, {0, 10}, /*commit=*/false);
  REQUIRE(ListCheckpoints(dir.path())->size() == 2);
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"manifest.json", "manifest.json: has checksum"},
      {"manifest.json.crc", "manifest.json: has checksum"},
      {"ps-0.safetensors", "ps-0.safetensors: has checksum"},
      {"ps-1.safetensors", "ps-1.safetensors: has checksum"}};
  std::vector<std::string> reasons;
  const auto newest_id = [&] {
    reasons.clear();
    const auto found =
        NewestValid(dir.path(), [&](const std::string& path, const absl::Status& why) {
          CHECK(path == JoinPath(newest, kManifestName));
          reasons.push_back(testing::Message(why));
        });
    REQUIRE(found.ok());
    return found->has_value() ? (*found)->id.cut : 0;
  };
  CHECK(newest_id() == 2);
  for (const auto& [name, reason] : damages) {
    const std::string path = JoinPath(newest, name);
    const std::string good = testing::ReadAllBytes(path);
    for (const size_t at : {size_t{0}, good.size() / 2, good.size() - 1}) {
      Damage(path, at);
      INFO(name);
      CHECK(newest_id() == 1);
      REQUIRE(reasons.size() == 1);
      CHECK(Contains(reasons[0], reason));
      testing::WriteAllBytes(path, good);
    }
    testing::WriteAllBytes(path, good.substr(0, good.size() - 1));
    CHECK(newest_id() == 1);
    std::filesystem::remove(path);
    CHECK(newest_id() == 1);
    testing::WriteAllBytes(path, good);
  }
  CHECK(newest_id() == 2);
}

TEST_CASE("the newest manifest that can be read counts, whatever became of its files") {
  TestDirectory dir;
  v1::Manifest manifest;
  const auto newest = [&] {
    manifest.Clear();
    const auto found = NewestReadable(dir.path(), &manifest);
    REQUIRE(found.ok());
    CHECK(manifest.cut() == (found->has_value() ? (*found)->id.cut : 0));
    return manifest.cut();
  };
  CHECK(newest() == 0);
  for (uint64_t cut = 1; cut <= 3; ++cut) WriteCheckpoint(dir.path(), {0, 1, cut}, {0, 10});
  WriteCheckpoint(dir.path(), {0, 1, 4}, {0, 10}, /*commit=*/false);
  CHECK(newest() == 3);
  Damage(dir / "ckpt-0-1-3/ps-0.safetensors", 100);
  CHECK(newest() == 3);
  Damage(dir / "ckpt-0-1-3/manifest.json", 10);
  std::filesystem::remove(dir / "ckpt-0-1-2/manifest.json.crc");
  CHECK(newest() == 1);
  Damage(dir / "ckpt-0-1-1/manifest.json.crc", 0);
  CHECK(newest() == 0);
  const auto none = NewestReadable(dir / "none", &manifest);
  REQUIRE(none.ok());
  CHECK(!none->has_value());
}

// One piece of the table "t", which has one row or names one.
struct TablePiece {
  std::string slot;
  int64_t width = 0;  // 0: int64 numbers
};

v1::SnapshotFile WriteTable(const std::string& path, const std::vector<TablePiece>& pieces) {
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<uint64_t> zeros;
  for (const auto& [slot, width] : pieces) {
    const std::string name = ShardTensorName{"t", slot, 0, uint64_t{kTableRows}}.ToString();
    if (width == 0) entries.push_back({name, DType::kInt64, {1}});
    if (width > 0) entries.push_back({name, DType::kFloat64, {1, width}});
    zeros.resize(zeros.size() + static_cast<size_t>(std::max<int64_t>(width, 1)));
  }
  auto writer = SafetensorsWriter::Create(path, entries, {});
  REQUIRE(writer.ok());
  REQUIRE((*writer)->Append(zeros.data(), zeros.size() * sizeof(zeros[0])).ok());
  const auto result = (*writer)->Finish();
  REQUIRE(result.ok());
  v1::SnapshotFile file;
  file.set_name(path.substr(path.rfind('/') + 1));
  file.set_bytes(result->bytes);
  file.set_crc32(result->crc32);
  return file;
}

TEST_CASE("an increment whose rows are wider than those of its base is refused") {
  TestDirectory dir;
  const auto write = [&](uint64_t cut, int64_t width,
                         const std::vector<std::vector<TablePiece>>& files) {
    const CheckpointId id = {0, 1, cut};
    const std::string path = JoinPath(dir.path(), id.ToString());
    REQUIRE(MakeDirectories(path).ok());
    v1::Manifest manifest;
    manifest.set_generation(1);
    manifest.set_cut(cut);
    if (cut > 1) manifest.set_base(CheckpointId{0, 1, 1}.ToString());
    v1::VariableSpec* const table = manifest.mutable_layout()->add_variables();
    table->set_name("t");
    table->set_dtype(v1::FLOAT64);
    table->add_dims(kTableRows);
    table->add_dims(width);
    for (size_t f = 0; f < files.size(); ++f) {
      *manifest.add_files() =
          WriteTable(JoinPath(path, fmt::format("ps-{}.safetensors", f)), files[f]);
    }
    REQUIRE(CommitManifest(path, manifest).ok());
    return CheckpointReader::Open(path, {}).status();
  };
  REQUIRE(write(1, 2, {{{kKeysSlot}, {"", 2}}}).ok());
  // The file of the wide rows has no changes; that of their keys has.
  for (const int64_t width : {2, 4096}) {
    const absl::Status opened = write(2, width, {{{kRemovedKeysSlot}, {kKeysSlot}}, {{"", width}}});
    if (width == 2) {
      CHECK(opened.ok());
    } else {
      CHECK(absl::IsDataLoss(opened));
      CHECK(Contains(testing::Message(opened), "the base ckpt-0-1-1 has no rows of t"));
    }
  }
}

TEST_CASE("no changed byte of a manifest makes the parser stumble") {
  TestDirectory dir;
  const std::string path = WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 5, 10});
  const std::string good = testing::ReadAllBytes(JoinPath(path, kManifestName));
  const auto probe = [&](const std::string& json) {
    testing::WriteAllBytes(JoinPath(path, kManifestName), json);
    // With the checksum of the changed text, so that it reaches the parser.
    testing::WriteAllBytes(
        JoinPath(path, "manifest.json.crc"),
        fmt::format("{:08x} {}\n", Crc32(0, json.data(), json.size()), json.size()));
    return CheckpointReader::Open(path, {}).ok();
  };
  REQUIRE(probe(good));
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char value : {'\0', '\xff', '"', '[', '9', '-', static_cast<char>(good[at] ^ 1)}) {
      std::string bad = good;
      bad[at] = value;
      if (!probe(bad)) ++refused;
    }
    if (at % 8 == 0 && !probe(good.substr(0, at))) ++refused;
  }
  CHECK(refused > good.size());
  CHECK(!probe(std::string(100000, '[')));
  CHECK(!probe("{\"format_version\": 0}"));
  CHECK(!probe("{\"format_version\": 99}"));
}

TEST_CASE("a manifest of a newer format is refused by name, and no older one takes its place") {
  TestDirectory dir;
  WriteCheckpoint(dir.path(), {3, 1, 1}, {0, 10});
  const std::string path = JoinPath(WriteCheckpoint(dir.path(), {3, 1, 2}, {0, 10}), kManifestName);
  const auto rewrite = [&](const std::string& json) {
    testing::WriteAllBytes(path, json);
    testing::WriteAllBytes(
        path + ".crc", fmt::format("{:08x} {}\n", Crc32(0, json.data(), json.size()), json.size()));
  };
  // Another type of a known field must not hide the version.
  rewrite(R"({"format_version": 9, "cohort_version": "7.1.0", "job": {"name": "t"}})");
  const absl::Status refused = ReadManifest(path).status();
  CHECK(IsNewerFormat(refused));
  CHECK(ExitCodeOf(refused) == ExitCode::kData);
  CHECK(testing::Message(refused) ==
        fmt::format("{} has format version 9; Cohort {} reads versions up to 5: use Cohort 7.1.0 "
                    "or newer",
                    path, CohortVersion()));
  CHECK(NewestValid(dir.path(), nullptr).status() == refused);
  v1::Manifest newest;
  CHECK(NewestReadable(dir.path(), &newest).status() == refused);

  rewrite(R"({"format_version": 9})");
  CHECK(Contains(testing::Message(ReadManifest(path).status()),
                 "use Cohort of the version that wrote it"));
}

TEST_CASE("a manifest carries the oldest format that its reader must know") {
  TestDirectory dir;
  v1::Manifest manifest;
  const auto format = [&] {
    REQUIRE(CommitManifest(dir.path(), manifest).ok());
    return ReadManifest(dir.path())->format_version();
  };
  CHECK(format() == 1);
  manifest.mutable_epochs()->set_steps_per_epoch(10);
  CHECK(format() == 1);
  manifest.mutable_epochs()->set_first_place(20);
  CHECK(format() == 2);
  v1::MetricValue* metric = manifest.mutable_chief()->add_metrics();
  metric->set_name("loss");
  metric->set_total(3);
  metric->set_count(2);
  CHECK(format() == 2);
  v1::AccumulatorValue* accumulator = metric->add_accumulators();
  accumulator->set_reduction(v1::REDUCE_SUM);
  accumulator->add_values(1);
  CHECK(format() == 3);
  v1::ClosureRange* const finished = manifest.mutable_chief()->add_finished_ranges();
  finished->set_begin(5);
  finished->set_end(9);
  CHECK(format() == 4);
  finished->set_end(uint64_t{1} << 40);
  REQUIRE(CommitManifest(dir.path(), manifest).ok());
  CHECK(Contains(testing::Message(ReadManifest(dir.path()).status()), "no range, or too many"));
}

TEST_CASE("metrics of a manifest are checked") {
  TestDirectory dir;
  v1::Manifest manifest;
  manifest.mutable_chief()->add_metrics()->set_name("auc");
  manifest.mutable_chief()->mutable_metrics(0)->add_accumulators()->set_name("true_positives");
  REQUIRE(CommitManifest(dir.path(), manifest).ok());
  const absl::Status refused = ReadManifest(dir.path()).status();
  CHECK(absl::IsDataLoss(refused));
  CHECK(Contains(testing::Message(refused),
                 "metric 'auc': accumulator 'true_positives' has the unknown reduction 0"));
}

TEST_CASE("old checkpoints go, the newest valid one never does") {
  TestDirectory dir;
  for (uint64_t cut = 1; cut <= 5; ++cut) WriteCheckpoint(dir.path(), {0, 1, cut}, {0, 10});
  CHECK(DeleteOldCheckpoints(dir.path(), {.max_to_keep = 0})->empty());
  CHECK(*DeleteOldCheckpoints(dir.path(), {.max_to_keep = 3}) ==
        std::vector<std::string>{"ckpt-0-1-2", "ckpt-0-1-1"});
  REQUIRE(ListCheckpoints(dir.path())->size() == 3);
  Damage(dir / "ckpt-0-1-5/ps-0.safetensors", 100);
  Damage(dir / "ckpt-0-1-4/manifest.json", 10);
  CHECK(DeleteOldCheckpoints(dir.path(), {.max_to_keep = 2})->empty());
  CHECK((*NewestValid(dir.path(), nullptr))->id.cut == 3);
  Damage(dir / "ckpt-0-1-3/manifest.json", 10);
  CHECK(DeleteOldCheckpoints(dir.path(), {.max_to_keep = 1})->empty());
}

TEST_CASE("nothing is deleted while nobody can tell which base a kept checkpoint needs") {
  TestDirectory dir;
  for (uint64_t cut = 1; cut <= 3; ++cut) WriteCheckpoint(dir.path(), {0, 1, cut}, {0, 10});
  v1::Manifest manifest = *ReadManifest(dir / "ckpt-0-1-3");
  manifest.set_base("ckpt-0-1-2");
  REQUIRE(CommitManifest(dir / "ckpt-0-1-3", manifest).ok());
  const auto retain = [&] {
    return DeleteOldCheckpoints(dir.path(),
                                {.max_to_keep = 1, .known_valid = CheckpointId{0, 1, 3}});
  };
  const std::string path = dir / "ckpt-0-1-3/manifest.json";
  const std::string json = testing::ReadAllBytes(path);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);  // opens, and cannot be read
  const absl::Status unread = retain().status();
  CHECK(Contains(testing::Message(unread), "old checkpoints stay"));
  CHECK(Contains(testing::Message(unread), path));
  std::filesystem::remove(path);
  for (const std::string& damaged :
       {json.substr(0, json.size() / 2), std::string(R"({"base": "x"})")}) {
    testing::WriteAllBytes(path, damaged);
    CHECK(absl::IsDataLoss(retain().status()));
  }
  testing::WriteAllBytes(path, json);
  CHECK(ListCheckpoints(dir.path())->size() == 3);
  CHECK(*retain() == std::vector<std::string>{"ckpt-0-1-1"});
}

TEST_CASE("what abandoned cuts left goes with the old, a cut under way stays") {
  TestDirectory dir;
  WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10}, /*commit=*/false);
  WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 10});
  WriteCheckpoint(dir.path(), {0, 1, 3}, {0, 10}, /*commit=*/false);
  CHECK(
      *DeleteOldCheckpoints(dir.path(), {.max_to_keep = 2, .known_valid = CheckpointId{0, 1, 2}}) ==
      std::vector<std::string>{"ckpt-0-1-1"});
  CHECK(std::filesystem::exists(dir / "ckpt-0-1-3"));
}

// While old checkpoints are deleted, newer ones are committed.
TEST_CASE("no checkpoint after the one that is known to be valid is deleted") {
  TestDirectory dir;
  for (uint64_t cut = 1; cut <= 5; ++cut) WriteCheckpoint(dir.path(), {0, 1, cut}, {0, 10});
  CHECK(
      *DeleteOldCheckpoints(dir.path(), {.max_to_keep = 1, .known_valid = CheckpointId{0, 1, 3}}) ==
      std::vector<std::string>{"ckpt-0-1-2", "ckpt-0-1-1"});
}

TEST_CASE("what failed cuts left goes when they fail, and empty directories at the next start") {
  TestDirectory dir;
  WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10});
  WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 10}, /*commit=*/false);
  WriteCheckpoint(dir.path(), {0, 1, 3}, {0, 10}, /*commit=*/false);
  WriteCheckpoint(dir.path(), {0, 1, 4}, {0, 10}, /*commit=*/false);
  REQUIRE(DeleteUncommitted(dir.path(), {0, 1, 3}, [] { return absl::OkStatus(); }).ok());
  CHECK(std::filesystem::exists(dir / "ckpt-0-1-1"));
  CHECK(!std::filesystem::exists(dir / "ckpt-0-1-2"));
  CHECK(!std::filesystem::exists(dir / "ckpt-0-1-3"));
  CHECK(absl::IsAborted(
      DeleteUncommitted(dir.path(), {0, 1, 4}, [] { return Aborted("not ours"); })));
  REQUIRE(MakeDirectories(dir / "ckpt-0-1-5").ok());
  RemoveEmptyCheckpoints(dir.path());
  CHECK(std::filesystem::exists(dir / "ckpt-0-1-4"));
  CHECK(!std::filesystem::exists(dir / "ckpt-0-1-5"));
}

TEST_CASE("a crash while a checkpoint is deleted leaves none that looks whole") {
  TestDirectory dir;
  const std::string path = WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10});
  // A file that cannot be removed stops the deletion half way: a directory with something in it.
  REQUIRE(MakeDirectories(JoinPath(path, "a/b")).ok());
  CHECK(!DeleteCheckpoint(path).ok());
  CHECK(std::filesystem::exists(path));
  CHECK(ListCheckpoints(dir.path())->empty());
  std::filesystem::remove_all(JoinPath(path, "a"));
  CHECK(DeleteCheckpoint(path).ok());
  CHECK(!std::filesystem::exists(path));
  CHECK(DeleteCheckpoint(path).ok());
}

TEST_CASE("a full disk while committing leaves the old checkpoint the newest") {
  TestDirectory dir;
  WriteCheckpoint(dir.path(), {0, 1, 1}, {0, 10});
  const std::string next = WriteCheckpoint(dir.path(), {0, 1, 2}, {0, 10}, /*commit=*/false);
  v1::Manifest manifest = *ReadManifest(dir / "ckpt-0-1-1");
  manifest.set_cut(2);
  manifest.set_job_yaml(std::string(5000, 'x'));
  {
    testing::FullDisk full(1000);
    CHECK(absl::IsResourceExhausted(CommitManifest(next, manifest)));
  }
  CHECK((*NewestValid(dir.path(), nullptr))->id.cut == 1);
  CHECK(!std::filesystem::exists(JoinPath(next, "manifest.json.tmp")));
  REQUIRE(CommitManifest(next, manifest).ok());
  CHECK((*NewestValid(dir.path(), nullptr))->id.cut == 2);
}

TEST_CASE("the token proves a shared directory") {
  TestDirectory dir;
  const std::string shared = dir / "shared/checkpoints";
  const auto token = CreateDirectoryToken(shared, 0xabc);
  REQUIRE(token.ok());
  CHECK(CheckDirectoryToken(shared, *token).ok());
  REQUIRE(MakeDirectories(dir / "local").ok());
  const absl::Status other = CheckDirectoryToken(dir / "local", *token);
  CHECK(absl::IsFailedPrecondition(other));
  CHECK(Contains(testing::Message(other), "is not the chief's"));
  CHECK(
      Contains(testing::Message(CheckDirectoryToken(dir / "none", *token)), "does not exist here"));
  CHECK(absl::IsInvalidArgument(CheckDirectoryToken(shared, "../../etc/passwd")));
  const auto second = CreateDirectoryToken(shared, 0xabd);
  REQUIRE(second.ok());
  CHECK(!CheckDirectoryToken(shared, *token).ok());
  CHECK(CheckDirectoryToken(shared, *second).ok());
}

}  // namespace
}  // namespace cohort
