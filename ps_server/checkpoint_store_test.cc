#include "common/tablet/checkpoint_store.h"

#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

#include "common/base/crash_point.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/testing/directory_test_util.h"
#include "ps_server/core_test_util.h"

namespace cohort::ps_test {
namespace {

using testing::TestDirectory;

const std::vector<v1::VariableSpec> kVariables = {
    Variable("table", {11, 3}, 1), Variable("dense/kernel", {7, 4}, 2, v1::FLOAT64),
    Variable("dense/bias", {5}, 3), Variable("scale", {}, 4)};

// Its directories have no tokens.
class StoreWithoutTokens : public CheckpointStore {
 public:
  absl::Status CheckDirectory(const std::string&, const std::string&) override {
    return absl::OkStatus();
  }
};

uint64_t RowElementsOf(const v1::VariableSpec& variable) {
  return variable.dims_size() > 1 ? static_cast<uint64_t>(variable.dims(1)) : 1;
}

// The same layout, with rows that are partitioned by hash.
v1::Layout Hashed(v1::Layout layout) {
  for (v1::VariableSpec& variable : *layout.mutable_variables()) variable.set_hashed_rows(true);
  return layout;
}

// All servers of a layout, sharing a directory.
class TestCluster {
 public:
  explicit TestCluster(v1::Layout layout) : layout_(std::move(layout)) {
    uint32_t servers = 0;
    for (const auto& tablet : layout_.tablets()) servers = std::max(servers, tablet.ps() + 1);
    for (uint32_t i = 0; i < servers; ++i) {
      ps_.push_back(std::make_unique<TestCore>(i, &store_));
      ps_.back()->index = i;
      ps_.back()->Adopt(1, 1);
    }
  }

  // The same chief, with this directory.
  void Adopt(const std::string& checkpoint_dir) {
    for (auto& ps : ps_) {
      ps->checkpoint_dir = checkpoint_dir;
      ps->Adopt(1, 1);
    }
  }

  absl::Status Assign(uint64_t timeline = 1, const std::string& manifest = "",
                      const std::string& initial_values = "") {
    timeline_ = timeline;
    for (auto& ps : ps_) {
      ps->initial_values = initial_values;
      ps->Assign(1, layout_, timeline, manifest);
      ps->RunBackground();
      const auto answer = ps->Last(1);
      if (answer.status().code() != 0) return DataLoss("{}", answer.status().message());
      REQUIRE(answer.assigned().timeline() == timeline);
    }
    return absl::OkStatus();
  }

  // One closure's push to the servers of [first, last); returns the verdicts by server.
  std::vector<int> Push(uint64_t closure, size_t first = 0, size_t last = 100) {
    std::vector<int> verdicts;
    for (size_t i = first; i < std::min(last, ps_.size()); ++i) {
      TestRequest request = MakePush(static_cast<uint32_t>(i), closure);
      const auto header = ps_[i]->Handle(request);
      for (const auto& result : header.pushes()) {
        CHECK(result.status() == header.pushes(0).status());
      }
      verdicts.push_back(header.pushes(0).status());
    }
    return verdicts;
  }

  // Takes a cut and commits it; returns its manifest.
  std::string Cut(const std::string& directory, uint64_t watermark = 0) {
    v1::Manifest manifest;
    manifest.set_format_version(1);
    manifest.set_cut(1);
    manifest.set_timeline(timeline_);
    manifest.set_generation(1);
    *manifest.mutable_layout() = layout_;
    manifest.mutable_chief()->set_settled_watermark(watermark);
    const std::string path = directory + "/" + IdOf(manifest).ToString();
    Adopt(directory);
    for (auto& ps : ps_) {
      ps->TakeSnapshot(1, 1, path, timeline_);
      *manifest.mutable_tablets() = [&] {
        auto tablets = manifest.tablets();
        tablets.MergeFrom(ps->Last(1).snapshot_taken().tablets());
        return tablets;
      }();
      ps->RunBackground();
      const auto written = ps->Last(1);
      INFO(written.status().message());
      REQUIRE(written.has_snapshot_written());
      manifest.mutable_files()->MergeFrom(written.snapshot_written().files());
    }
    const absl::Status status = CommitManifest(path, manifest);
    INFO(status);
    REQUIRE(status.ok());
    return path + "/" + kManifestName;
  }

  // Every logical variable, as float64, in the order of kVariables.
  std::vector<std::vector<double>> Values() {
    std::vector<std::vector<double>> values(kVariables.size());
    for (const v1::ShardSpec& shard : layout_.shards()) {
      const auto ps = layout_.tablets(static_cast<int>(shard.tablet())).ps();
      ps_[ps]->Pull(shard.tablet(), shard.shard());
      auto& out = values[shard.variable()];
      const auto place = [&](const auto& of_shard) {
        for (size_t e = 0; e < of_shard.size(); ++e) {
          const uint64_t at = ElementOf(shard, e);
          out.resize(std::max<size_t>(out.size(), at + 1));
          out[at] = of_shard[e];
        }
      };
      if (kVariables[shard.variable()].dtype() == v1::FLOAT64) {
        place(TestTablet::Values<double>(ps_[ps]->payload));
      } else {
        place(TestTablet::Values<float>(ps_[ps]->payload));
      }
    }
    return values;
  }

  TestCore& ps(size_t i) { return *ps_[i]; }

 private:
  // The gradient of an element depends on its place in the logical variable and on the closure
  // only.
  static double Gradient(uint64_t variable, uint64_t element, uint64_t closure) {
    return static_cast<double>((element * 37 + closure * 11 + variable * 5) % 19) - 9;
  }

  // The place in the logical variable of an element of a shard.
  uint64_t ElementOf(const v1::ShardSpec& shard, uint64_t element) const {
    const v1::VariableSpec& variable = kVariables[shard.variable()];
    const uint64_t width = RowElementsOf(variable);
    uint64_t row = shard.row_begin() + element / width;
    if (layout_.variables(static_cast<int>(shard.variable())).hashed_rows()) {
      int64_t shards = 0, part = 0;
      for (const v1::ShardSpec& other : layout_.shards()) {
        if (other.variable() != shard.variable()) continue;
        ++shards;
        if (other.row_begin() < shard.row_begin()) ++part;
      }
      const HashedRows hashed(variable.dims_size() > 0 ? variable.dims(0) : 1, shards);
      row = static_cast<uint64_t>(hashed.RowAt({part, static_cast<int64_t>(element / width)}));
    }
    return row * width + element % width;
  }

  template <typename T>
  void AddGradient(const v1::ShardSpec& shard, uint64_t row_elements, uint64_t closure,
                   TestRequest* request) const {
    std::vector<T> values;
    for (uint64_t e = 0; e < shard.rows() * row_elements; ++e) {
      values.push_back(static_cast<T>(Gradient(shard.variable(), ElementOf(shard, e), closure)));
    }
    request->Add(values);
  }

  TestRequest MakePush(uint32_t ps, uint64_t closure) const {
    TestRequest request;
    request.header.set_generation(1);
    v1::PushPart* push = request.header.mutable_push();
    push->mutable_id()->set_closure(closure);
    push->set_place(closure);
    push->set_timeline(timeline_);
    push->set_weight(4);
    for (const v1::TabletSpec& tablet : layout_.tablets()) {
      if (tablet.ps() != ps) continue;
      v1::PushSection* section = push->add_sections();
      section->set_tablet(tablet.tablet());
      section->set_term(timeline_);
      for (const v1::ShardSpec& shard : layout_.shards()) {
        if (shard.tablet() != tablet.tablet()) continue;
        if (!layout_.variables(static_cast<int>(shard.variable())).trainable()) continue;
        const v1::VariableSpec& variable = kVariables[shard.variable()];
        const uint64_t row_elements = RowElementsOf(variable);
        v1::PushEntry* entry = section->add_entries();
        entry->set_shard(shard.shard());
        entry->set_kind(v1::GRADIENT);
        entry->set_count(shard.rows() * row_elements);
        if (variable.dtype() == v1::FLOAT64) {
          AddGradient<double>(shard, row_elements, closure, &request);
        } else {
          AddGradient<float>(shard, row_elements, closure, &request);
        }
      }
    }
    return request;
  }

  const v1::Layout layout_;
  StoreWithoutTokens store_;
  uint64_t timeline_ = 1;
  std::vector<std::unique_ptr<TestCore>> ps_;
};

constexpr int kApplied = v1::APPLIED;
constexpr int kDuplicate = v1::DUPLICATE;

TEST_CASE("variables begin with the initial values of a file, whatever their shards") {
  TestDirectory directory;
  std::vector<float> table(33);
  std::iota(table.begin(), table.end(), 0.5F);
  const std::vector<double> scale = {7};
  const auto write = [&](const std::vector<SafetensorsWriter::Entry>& entries) {
    auto writer = SafetensorsWriter::Create(directory / "values", entries, {});
    REQUIRE(writer.ok());
    for (const auto& entry : entries) {
      const void* const data = entry.name == "table" ? static_cast<const void*>(table.data())
                                                     : static_cast<const void*>(scale.data());
      REQUIRE((*writer)
                  ->Append(data, static_cast<size_t>(NumElements(entry.dims)) * SizeOf(entry.dtype))
                  .ok());
    }
    REQUIRE((*writer)->Finish().ok());
  };
  const v1::Layout layout = Layout(kVariables, Adam(), 3, {2, 1});
  TestCluster servers(GENERATE(false, true) ? Hashed(layout) : layout);
  write({{"table", DType::kFloat32, {11, 3}}, {"unknown", DType::kFloat64, {}}});
  REQUIRE(servers.Assign(1, "", directory / "values").ok());
  const auto values = servers.Values();
  CHECK(values[0] == std::vector<double>(table.begin(), table.end()));
  CHECK(values[1] == std::vector<double>(28, 2));  // its initializer
  CHECK(values[2] == std::vector<double>(5, 3));
  // The first update finds the slots as the optimizer begins.
  TestCluster same(Layout(kVariables, Adam(), 1, {1}));
  REQUIRE(same.Assign(1, "", directory / "values").ok());
  servers.Push(1);
  same.Push(1);
  CHECK(servers.Values() == same.Values());
  CHECK(servers.Values()[0] != values[0]);

  write({{"table", DType::kFloat64, {}}});
  const absl::Status other = servers.Assign(2, "", directory / "values");
  CHECK(other.message().find("\"table\" has the type float64 and the shape []") !=
        std::string::npos);
  CHECK(!servers.Assign(3, "", directory / "none").ok());
}

TEST_CASE("a cut is restored onto other numbers of shards, tablets and servers") {
  // Slots of the variable's shape, of one number for each row, and of bfloat16.
  const v1::OptimizerSpec halves =
      OptimizerOf("Adam", {{"slot_dtype", ConfigOf(std::string("bfloat16"))}});
  const v1::OptimizerSpec optimizer =
      GENERATE_COPY(Adam(), OptimizerOf("RowwiseAdagrad", {}), halves);
  CAPTURE(optimizer.rule().class_name());
  TestDirectory directory;
  const bool was_hashed = GENERATE(false, true), is_hashed = GENERATE(false, true);
  const v1::Layout layout = Layout(kVariables, optimizer, 2, {2, 1});
  TestCluster before(was_hashed ? Hashed(layout) : layout);
  REQUIRE(before.Assign().ok());
  for (uint64_t c = 0; c < 5; ++c) before.Push(c);
  const std::string manifest = before.Cut(directory.path(), 3);
  const auto at_cut = before.Values();
  for (uint64_t c = 5; c < 8; ++c) before.Push(c);

  const std::vector<std::pair<int, std::vector<int>>> layouts = {
      {2, {2, 1}}, {1, {1}}, {3, {1, 4, 2}}, {11, {3, 3}}};
  for (const auto& [shards, cores] : layouts) {
    CAPTURE(was_hashed, is_hashed, shards, cores.size());
    const v1::Layout other = Layout(kVariables, optimizer, shards, cores);
    TestCluster after(is_hashed ? Hashed(other) : other);
    REQUIRE(after.Assign(2, manifest).ok());
    CHECK(after.Values() == at_cut);
    // The applied updates are known, and the slots are there, so training continues with equal
    // bits.
    for (const int verdict : after.Push(2)) CHECK(verdict == v1::SETTLED);
    for (const int verdict : after.Push(4)) CHECK(verdict == kDuplicate);
    for (uint64_t c = 5; c < 8; ++c) {
      for (const int verdict : after.Push(c)) CHECK(verdict == kApplied);
    }
    CHECK(after.Values() == before.Values());
  }
}

TEST_CASE("variables are restored with the slots of their own optimizers, frozen ones without") {
  TestDirectory directory;
  std::vector<v1::VariableSpec> variables = kVariables;
  for (uint32_t i = 0; i < 3; ++i) variables[i].set_optimizer(i);
  variables[3].set_trainable(false);
  const std::vector<v1::OptimizerSpec> optimizers = {OptimizerOf("Adagrad", {}),
                                                     OptimizerOf("Ftrl", {}), Adam()};
  TestCluster before(Layout(variables, optimizers, 1, {1}));
  REQUIRE(before.Assign().ok());
  for (uint64_t c = 0; c < 5; ++c) CHECK(before.Push(c) == std::vector<int>{kApplied});
  const std::string manifest = before.Cut(directory.path(), 3);
  const auto at_cut = before.Values();
  for (uint64_t c = 5; c < 8; ++c) before.Push(c);

  const auto file = SafetensorsReader::Open(std::filesystem::path(manifest).parent_path().string() +
                                            "/ps-0.safetensors");
  REQUIRE(file.ok());
  std::set<std::string> names, expected;
  for (const TensorInfo& tensor : (*file)->tensors()) names.insert(tensor.name);
  for (const char* slot : {"", "accumulator"}) {
    expected.insert(ShardTensorName{"table", slot, 0, 11}.ToString());
  }
  for (const char* slot : {"", "accumulator", "linear"}) {
    expected.insert(ShardTensorName{"dense/kernel", slot, 0, 7}.ToString());
  }
  for (const char* slot : {"", "momentum", "velocity"}) {
    expected.insert(ShardTensorName{"dense/bias", slot, 0, 5}.ToString());
  }
  expected.insert(ShardTensorName{"scale", "", 0, 1}.ToString());
  CHECK(names == expected);

  TestCluster after(Layout(variables, optimizers, 3, {1, 2}));
  REQUIRE(after.Assign(2, manifest).ok());
  CHECK(after.Values() == at_cut);
  for (uint64_t c = 5; c < 8; ++c) after.Push(c);
  CHECK(after.Values() == before.Values());
  CHECK(after.Values()[3] == std::vector<double>{4});
}

TEST_CASE("a cut of a version whose layouts had one flat optimizer is restored") {
  TestDirectory directory;
  TestCluster before(Layout(kVariables, Adam(), 1, {1}));
  REQUIRE(before.Assign().ok());
  before.Push(0);
  const std::string manifest = before.Cut(directory.path(), 1);
  std::string text = testing::ReadAllBytes(manifest);
  const size_t layout = text.find('{', text.find("\"layout\"")) + 1;
  text.insert(layout, R"("optimizer": {"className": "Adam", "learningRate": 0.1, "beta1": 0.9},)");
  std::ofstream(manifest) << text;
  const auto* bytes = reinterpret_cast<const Bytef*>(text.data());
  std::ofstream(manifest + ".crc")
      << fmt::format("{:08x} {}\n", crc32(0, bytes, static_cast<uInt>(text.size())), text.size());
  TestCluster after(Layout(kVariables, Adam(), 2, {1, 1}));
  const absl::Status restored = after.Assign(2, manifest);
  INFO(restored);
  REQUIRE(restored.ok());
  CHECK(after.Values() == before.Values());
}

TEST_CASE("a closure that was pending in the cut is completed where it is missing") {
  TestDirectory directory;
  const auto layout = Layout(kVariables, Adam(), 2, {1, 1});
  TestCluster before(layout);
  REQUIRE(before.Assign().ok());
  before.Push(0);
  before.Push(1, 0, 1);
  const std::string manifest = before.Cut(directory.path(), 1);
  CHECK(before.Push(1) == std::vector<int>{kDuplicate, kApplied});
  TestCluster after(layout);
  REQUIRE(after.Assign(2, manifest).ok());
  CHECK(after.Push(1) == std::vector<int>{kDuplicate, kApplied});
  CHECK(after.Values() == before.Values());
  // Put together in one tablet, rows of both kinds are there: at most once per row holds.
  TestCluster one(Layout(kVariables, Adam(), 1, {1}));
  REQUIRE(one.Assign(2, manifest).ok());
  CHECK(one.Push(1) == std::vector<int>{kDuplicate});
  CHECK_THAT(one.ps(0).registry.Text(), Catch::Contains("cohort_ps_partially_applied_total 1"));
}

TEST_CASE("what cannot be restored is named") {
  TestDirectory directory;
  TestCluster before(Layout(kVariables, Sgd(1), 1, {1}));
  REQUIRE(before.Assign().ok());
  const std::string manifest = before.Cut(directory.path());
  // Adam's slots are not in a checkpoint of plain SGD.
  TestCluster adam(Layout(kVariables, Adam(), 1, {1}));
  const absl::Status status = adam.Assign(2, manifest);
  CHECK_THAT(std::string(status.message()), Catch::Contains("table") && Catch::Contains(manifest));
  auto missing = kVariables;
  missing[0].set_name("other");
  TestCluster renamed(Layout(missing, Sgd(1), 1, {1}));
  CHECK_THAT(std::string(renamed.Assign(2, manifest).message()), Catch::Contains("other"));
  TestCluster torn(Layout(kVariables, Sgd(1), 1, {1}));
  CHECK_THAT(std::string(torn.Assign(2, directory / "nothing").message()),
             Catch::Contains("nothing"));
}

TEST_CASE("a snapshot drops each block as soon as it is in the file") {
  const TestDirectory dir;
  TestTablet tablet(Layout({Variable("w", {64}, 1)}, Adam()), /*block_bytes=*/64);
  SnapshotJob job;
  job.directory = dir / "cut";
  job.tablets.push_back(*tablet->Snapshot(0));
  const ShardSnapshot& shard = job.tablets[0].shards[0];
  TestPush push(0);
  push.Dense<float>(0, std::vector<float>(64, 1));
  REQUIRE(tablet.Push(push).status() == v1::APPLIED);
  const uint64_t all = 3 * 64 * sizeof(float);
  CHECK(job.superseded_bytes() == all);
  uint64_t last = 0;
  uint64_t synced = 0;
  job.on_progress = [&](uint64_t bytes) {
    if (last == all) {
      CHECK(!job.holds_any());
      synced = bytes - all;
      return;
    }
    CHECK(bytes == last + 64);
    last = bytes;
    CHECK(!shard.blocks[0].values);
    CHECK(job.superseded_bytes() == all - bytes);
  };
  CheckpointStore store;
  const auto files = store.Write(&job);
  REQUIRE(files.ok());
  CHECK(last == all);
  CHECK(synced == files->at(0).bytes());
}

// Rows on disk of a table: the numbers 0, 1, ..., of which it may report another count.
class MiscountedRows : public RowView, public RowCursor {
 public:
  MiscountedRows(uint64_t reported, int64_t rows) : reported_(reported), rows_(rows) {}

  uint64_t rows() const override { return reported_; }
  absl::StatusOr<uint64_t> CountOlder(uint64_t) const override { return uint64_t{0}; }
  std::unique_ptr<RowCursor> Rows() const override {
    return std::make_unique<MiscountedRows>(reported_, rows_);
  }
  bool Next() override { return ++row_ < rows_; }
  int64_t row() const override { return row_; }
  const uint8_t* record() const override { return record_.data(); }
  absl::Status status() const override { return absl::OkStatus(); }

 private:
  const uint64_t reported_;
  const int64_t rows_;
  int64_t row_ = -1;
  const std::vector<uint8_t> record_ = std::vector<uint8_t>(64);
};

TEST_CASE("a snapshot of a table has exactly the rows that were counted") {
  const TestDirectory dir;
  v1::VariableSpec variable = Variable("table", {kTableRows, 2});
  variable.set_row_reads(true);
  TestTablet tablet(Layout({variable}, Sgd(0.1)), 256);
  for (const auto& [reported, rows] :
       {std::pair(uint64_t{3}, 3), std::pair(uint64_t{4}, 3), std::pair(uint64_t{2}, 3)}) {
    TabletSnapshot snapshot = *tablet->Snapshot(0);
    snapshot.shards[0].on_disk = std::make_shared<MiscountedRows>(reported, rows);
    SnapshotJob job;
    job.directory = dir / fmt::format("{}", reported);
    job.tablets.push_back(std::move(snapshot));
    const auto written = CheckpointStore().Write(&job);
    INFO(written.status());
    const bool right = reported == static_cast<uint64_t>(rows);
    CHECK(written.ok() == right);
    CHECK(absl::IsInternal(written.status()) == !right);
    CHECK(std::filesystem::exists(job.directory + "/ps-0.safetensors") == written.ok());
  }
}

TEST_CASE("a full disk fails the snapshot, leaves no file, and training continues") {
  TestDirectory directory;
  TestCluster cluster(Layout({Variable("big", {64, 1024})}, Sgd(1), 1, {1}));
  REQUIRE(cluster.Assign().ok());
  {
    cluster.Adopt(directory.path());
    testing::FullDisk full(4096);
    cluster.ps(0).TakeSnapshot(1, 1, directory / "ckpt");
    cluster.ps(0).RunBackground();
  }
  const auto answer = cluster.ps(0).Last(1);
  CHECK(answer.status().code() == static_cast<int>(absl::StatusCode::kResourceExhausted));
  CHECK_THAT(answer.status().message(), Catch::Contains("ps-0.safetensors"));
  CHECK(!std::filesystem::exists(directory / "ckpt/ps-0.safetensors"));
}

TEST_CASE("a snapshot does not recreate the directory of checkpoints that was removed") {
  TestDirectory directory;
  TestCluster cluster(Layout({Variable("v", {4})}, Sgd(1), 1, {1}));
  REQUIRE(cluster.Assign().ok());
  cluster.Adopt(directory / "checkpoints");
  cluster.ps(0).TakeSnapshot(1, 1, directory / "checkpoints/ckpt");
  cluster.ps(0).RunBackground();
  CHECK_THAT(cluster.ps(0).Last(1).status().message(),
             Catch::Contains("cannot make the directory"));
  CHECK(!std::filesystem::exists(directory / "checkpoints"));
}

TEST_CASE("a snapshot is written to new files, and never through a link") {
  TestDirectory directory;
  const std::string victim = directory / "victim", checkpoints = directory / "checkpoints";
  testing::WriteAllBytes(victim, "mine");
  TestCluster cluster(Layout({Variable("v", {4})}, Sgd(1), 1, {1}));
  REQUIRE(cluster.Assign().ok());
  cluster.Adopt(checkpoints);
  const auto snapshot = [&](const std::string& path) {
    cluster.ps(0).TakeSnapshot(1, 1, path);
    cluster.ps(0).RunBackground();
    return cluster.ps(0).Last(1);
  };
  SECTION("a link that has the name of the file") {
    std::filesystem::create_directories(checkpoints + "/ckpt");
    std::filesystem::create_symlink(victim, checkpoints + "/ckpt/ps-0.safetensors");
    CHECK(snapshot(checkpoints + "/ckpt").has_snapshot_written());
    CHECK_FALSE(std::filesystem::is_symlink(checkpoints + "/ckpt/ps-0.safetensors"));
  }
  SECTION("a link that has the name of the directory") {
    std::filesystem::create_directories(checkpoints);
    std::filesystem::create_directories(directory / "elsewhere");
    std::filesystem::create_directory_symlink(directory / "elsewhere", checkpoints + "/ckpt");
    CHECK_THAT(snapshot(checkpoints + "/ckpt").status().message(),
               Catch::Contains("a symbolic link"));
    CHECK(std::filesystem::is_empty(directory / "elsewhere"));
  }
  SECTION("a directory that is not in that of the chief") {
    for (const std::string& path : {directory / "other", checkpoints + "/../other",
                                    checkpoints + "/a/b", checkpoints + "/", checkpoints}) {
      INFO(path);
      CHECK_THAT(snapshot(path).status().message(), Catch::Contains("does not lie directly in"));
    }
    CHECK_FALSE(std::filesystem::exists(directory / "other"));
  }
  std::ifstream in(victim);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == "mine");
}

TEST_CASE("crash points of snapshot and restore are passed") {
  TestDirectory directory;
  TestCluster cluster(Layout(kVariables, Sgd(1), 1, {1}));
  WatchCrashPoints(nullptr);
  REQUIRE(cluster.Assign().ok());
  REQUIRE(cluster.Assign(2, cluster.Cut(directory.path())).ok());
  CHECK(CrashPointHits("ps.snapshot.taken") == 1);
  CHECK(CrashPointHits("ps.snapshot.writing") == 4);
  CHECK(CrashPointHits("ps.snapshot.written") == 1);
  CHECK(CrashPointHits("ps.restore.done") == 1);
}

TEST_CASE("the apply log holds a line for every push section") {
  TestDirectory directory;
  auto log = ApplyLog::Open(directory / "apply.log", 77);
  REQUIRE(log.ok());
  {
    TestCore ps(0, nullptr, log->get());
    ps.Push(3, 0, 1, {1});
    ps.Adopt(1, 1);
    ps.Assign(1, Layout({Variable("w", {1})}, Sgd(1)));
    ps.RunBackground();
    ps.Push(0, 0, 12, {1});
    ps.Push(0, 0, 12, {1});
    ps.Push(0, 0, 13, {1, 1});
    ps.AdvanceWatermark(1, 20);
    ps.Push(0, 0, 13, {1});
    ps.Push(0, 0, 21, {1}, 4);
  }
  CHECK(testing::ReadAllBytes(directory / "apply.log") ==
        "# cohort apply log 1 77\n"
        "1 0 0 1 1 1 3 moved\n"
        "12 0 0 12 1 1 0 applied\n"
        "12 0 0 12 1 1 0 duplicate\n"
        "13 0 0 13 1 1 0 invalid\n"
        "13 0 0 13 1 1 0 settled\n"
        "21 0 0 21 4 1 0 fenced\n");
  REQUIRE(ApplyLog::Open(directory / "apply.log", 78).ok());
  CHECK(testing::Contains(testing::ReadAllBytes(directory / "apply.log"),
                          "fenced\n# cohort apply log 1 78\n"));
  CHECK_THAT(std::string(ApplyLog::Open("/no/such/file", 1).status().message()),
             Catch::Contains("--apply_log: /no/such/file: No such file"));
}

}  // namespace
}  // namespace cohort::ps_test
