#include "common/checkpoint/best_checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::TestDirectory;

const BestRule kLowest{.metric = "val_loss", .highest = false};
const BestRule kHighest{.metric = "val_loss", .highest = true};

// A checkpoint of one file.
struct Sample {
  CheckpointId id;
  std::optional<double> value;  // the metric of its validation
  std::string best;             // what it names as the best, with `best_value`
  double best_value = 0;
  std::string metric = "val_loss";
  uint64_t records = 0;  // records in the validation set
};

v1::Manifest Write(const std::string& directory, const Sample& sample) {
  const std::string dir = JoinPath(directory, sample.id.ToString());
  REQUIRE(MakeDirectories(dir).ok());
  const std::string bytes = "weights of " + sample.id.ToString();
  testing::WriteAllBytes(JoinPath(dir, "ps-0.safetensors"), bytes);
  v1::Manifest manifest;
  manifest.set_timeline(sample.id.timeline);
  manifest.set_generation(sample.id.generation);
  manifest.set_cut(sample.id.cut);
  manifest.set_epoch(sample.id.cut);
  v1::SnapshotFile* file = manifest.add_files();
  file->set_name("ps-0.safetensors");
  file->set_bytes(bytes.size());
  file->set_crc32(Crc32(0, bytes.data(), bytes.size()));
  manifest.mutable_validation_data()->set_records(sample.records);
  if (sample.value.has_value()) {
    manifest.mutable_validated()->set_metric(sample.metric);
    manifest.mutable_validated()->set_value(*sample.value);
  }
  if (!sample.best.empty()) {
    manifest.mutable_best()->set_checkpoint(sample.best);
    manifest.mutable_best()->set_metric(sample.metric);
    manifest.mutable_best()->set_mode("min");
    manifest.mutable_best()->set_value(sample.best_value);
  }
  REQUIRE(CommitManifest(dir, manifest).ok());
  return manifest;
}

void Tear(const std::string& directory, const std::string& name) {
  testing::WriteAllBytes(directory + "/" + name + "/ps-0.safetensors", "torn");
}

// The name of the best checkpoint; "" if there is none.
std::string Best(const absl::StatusOr<std::optional<v1::BestCheckpoint>>& best) {
  REQUIRE(best.ok());
  return best->has_value() ? (*best)->checkpoint() : "";
}

TEST_CASE("a figure is the best when it is better than the one before, and a number") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  v1::BestCheckpoint best;
  best.set_value(0.5);
  CHECK(kLowest.Better(0.4, &best));
  CHECK(!kLowest.Better(0.5, &best));
  CHECK(!kLowest.Better(0.6, &best));
  CHECK(kHighest.Better(0.6, &best));
  CHECK(!kHighest.Better(0.5, &best));
  CHECK(!kHighest.Better(0.4, &best));
  for (const BestRule& rule : {kLowest, kHighest}) {
    CHECK(rule.Better(1e300, nullptr));
    CHECK(!rule.Better(kNaN, nullptr));
    CHECK(!rule.Better(kNaN, &best));
    CHECK(!rule.Better(rule.highest ? -kInfinity : kInfinity, nullptr));
  }
}

TEST_CASE("the best checkpoint is kept beside the newest, until another is the best") {
  TestDirectory dir;
  for (uint64_t cut = 1; cut <= 5; ++cut) Write(dir.path(), {.id = {1, 1, cut}});
  RetentionOptions options{.max_to_keep = 2, .best = CheckpointId{1, 1, 2}};
  CHECK(*DeleteOldCheckpoints(dir.path(), options) ==
        std::vector<std::string>{"ckpt-1-1-3", "ckpt-1-1-1"});
  CHECK(DeleteOldCheckpoints(dir.path(), options)->empty());
  // Among the newest it takes one of their places.
  options.best = CheckpointId{1, 1, 5};
  CHECK(*DeleteOldCheckpoints(dir.path(), options) == std::vector<std::string>{"ckpt-1-1-2"});
  CHECK(ListCheckpoints(dir.path())->size() == 2);
}

TEST_CASE("the best is what the newest checkpoint says, where that is whole") {
  TestDirectory dir;
  CHECK(Best(FindBest(dir.path(), nullptr)).empty());
  Write(dir.path(), {.id = {1, 1, 1}, .value = 0.3, .best = "ckpt-1-1-1", .best_value = 0.3});
  Write(dir.path(), {.id = {1, 1, 2}, .value = 0.2, .best = "ckpt-1-1-2", .best_value = 0.2});
  const auto last =
      Write(dir.path(), {.id = {1, 2, 3}, .value = 0.4, .best = "ckpt-1-1-2", .best_value = 0.2});
  CHECK(Best(FindBest(dir.path(), nullptr)) == "ckpt-1-1-2");
  CHECK(Best(BestOf(dir.path(), last, kLowest, nullptr)) == "ckpt-1-1-2");
  // Under another rule, only the metrics of the checkpoints themselves are known.
  CHECK(Best(BestOf(dir.path(), last, kHighest, nullptr)) == "ckpt-1-2-3");
  CHECK(Best(BestOf(dir.path(), last, {.metric = "val_accuracy"}, nullptr)).empty());
}

TEST_CASE("a best checkpoint that is torn is refused by name, and the next best counts") {
  TestDirectory dir;
  Write(dir.path(), {.id = {1, 1, 9}, .value = 0.01});  // left by a rollback, for all that is known
  Write(dir.path(), {.id = {2, 2, 1}, .value = 0.3});
  Write(dir.path(), {.id = {2, 2, 2}, .value = 0.1});
  Write(dir.path(), {.id = {2, 2, 3}, .value = 0.2});
  Write(dir.path(), {.id = {2, 2, 4}, .value = 0.05, .metric = "val_accuracy"});
  const auto last = Write(dir.path(), {.id = {2, 2, 5}, .best = "ckpt-2-2-2", .best_value = 0.1});
  Write(dir.path(), {.id = {2, 2, 6}, .value = 0.02});  // after it
  std::vector<std::string> refused;
  const auto best = [&] {
    refused.clear();
    return Best(
        BestOf(dir.path(), last, kLowest, [&](const std::string& path, const absl::Status& why) {
          CHECK(testing::Contains(std::string(why.message()), "ckpt-"));
          refused.push_back(path);
        }));
  };
  CHECK(best() == "ckpt-2-2-2");
  CHECK(refused.empty());
  Tear(dir.path(), "ckpt-2-2-2");
  CHECK(best() == "ckpt-2-2-3");
  CHECK(refused == std::vector<std::string>{dir / "ckpt-2-2-2/manifest.json"});
  std::filesystem::remove_all(dir / "ckpt-2-2-2");
  CHECK(best() == "ckpt-2-2-3");
  Tear(dir.path(), "ckpt-2-2-3");
  CHECK(best() == "ckpt-2-2-1");
  CHECK(refused.size() == 2);
  Tear(dir.path(), "ckpt-2-2-1");
  CHECK(best().empty());
}

TEST_CASE("a best checkpoint of another validation set is refused by name, and none of it counts") {
  TestDirectory dir;
  Write(dir.path(), {.id = {1, 1, 1}, .value = 0.1, .records = 10});
  Write(dir.path(), {.id = {1, 1, 2}, .value = 0.4, .records = 20});
  Write(dir.path(), {.id = {1, 1, 3}, .value = 0.3, .records = 20});
  Write(dir.path(), {.id = {1, 1, 4}, .value = 0.2, .records = 10});
  const auto last =
      Write(dir.path(), {.id = {1, 1, 5}, .best = "ckpt-1-1-1", .best_value = 0.1, .records = 20});
  std::vector<std::string> refused;
  const auto best = [&](uint64_t records) {
    refused.clear();
    BestRule rule = kLowest;
    rule.comparable = [&](const v1::Manifest& manifest) {
      return manifest.validation_data().records() == records;
    };
    return Best(
        BestOf(dir.path(), last, rule, [&](const std::string& path, const absl::Status& why) {
          CHECK(testing::Contains(std::string(why.message()), "another validation set"));
          refused.push_back(path);
        }));
  };
  CHECK(best(10) == "ckpt-1-1-1");
  CHECK(refused.empty());
  CHECK(best(20) == "ckpt-1-1-3");
  CHECK(refused == std::vector<std::string>{dir / "ckpt-1-1-1/manifest.json"});
  CHECK(best(30).empty());
}

TEST_CASE("a name that leads out of the directory is no best checkpoint") {
  TestDirectory dir;
  const auto last = Write(
      dir.path(), {.id = {1, 1, 1}, .best = "../" + dir.path() + "/ckpt-1-1-1", .best_value = 1});
  CHECK(Best(BestOf(dir.path(), last, kLowest, nullptr)).empty());
}

TEST_CASE("where the newest is torn, the one before says which is the best") {
  TestDirectory dir;
  Write(dir.path(), {.id = {1, 1, 1}, .value = 0.3, .best = "ckpt-1-1-1", .best_value = 0.3});
  Write(dir.path(), {.id = {2, 2, 2}, .value = 0.4, .best = "ckpt-1-1-1", .best_value = 0.3});
  Write(dir.path(), {.id = {2, 2, 3}, .value = 0.1, .best = "ckpt-2-2-3", .best_value = 0.1});
  CHECK(Best(FindBest(dir.path(), nullptr)) == "ckpt-2-2-3");
  Tear(dir.path(), "ckpt-2-2-3");
  CHECK(Best(FindBest(dir.path(), nullptr)) == "ckpt-1-1-1");
}

}  // namespace
}  // namespace cohort
