#include "common/checkpoint/word_files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <vector>

#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/manifest.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

using testing::Contains;
using testing::TestDirectory;

v1::ConfigValue* VocabularyOf(v1::DatasetSpec* dataset) {
  v1::ClassConfig* const config = dataset->mutable_transforms(0)->mutable_transform_class();
  return &(*config->mutable_config())["vocabulary"];
}

// The manifest of cut `cut`, whose training and validation sets look up the same words.
v1::Manifest WithWords(uint64_t cut, int words) {
  v1::Manifest manifest;
  manifest.set_generation(1);
  manifest.set_cut(cut);
  v1::DataSpec* const data = manifest.mutable_job_spec()->mutable_data();
  for (v1::DatasetSpec* const dataset : {data->mutable_train(), data->mutable_validation()}) {
    dataset->add_transforms()->mutable_transform_class()->set_class_name("StringLookup");
    v1::ConfigList* const list = VocabularyOf(dataset)->mutable_list();
    list->add_values()->set_s("a\\b\nc");
    list->add_values()->set_s("");
    for (int i = 2; i < words; ++i) list->add_values()->set_s(fmt::format("\xc3\xa4 word {}", i));
  }
  return manifest;
}

std::string Prepare(const TestDirectory& dir, const v1::Manifest& manifest) {
  const std::string path = dir / IdOf(manifest).ToString();
  REQUIRE(MakeDirectories(path).ok());
  return path;
}

std::string Commit(const TestDirectory& dir, const v1::Manifest& manifest) {
  const std::string path = Prepare(dir, manifest);
  REQUIRE(CommitManifest(path, manifest).ok());
  return path;
}

std::string WordsFileIn(const std::string& checkpoint) {
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    if (entry.path().filename().string().starts_with("words-")) return entry.path().string();
  }
  return "";
}

TEST_CASE("a long vocabulary is a file that later checkpoints share") {
  TestDirectory dir;
  const v1::Manifest first = WithWords(1, 100'000);
  const std::string path = Commit(dir, first);
  CHECK(fs::file_size(path + "/manifest.json") < 2'000);
  v1::Manifest read = *ReadManifest(path);
  CHECK(read.format_version() == 4);
  REQUIRE(read.words_size() == 1);
  CHECK(read.words(0).words() == 100'000);
  CHECK(read.words(0).places_size() == 2);
  CHECK(read.job_spec().SerializeAsString().size() == first.job_spec().SerializeAsString().size());
  for (auto* dataset : {read.mutable_job_spec()->mutable_data()->mutable_train(),
                        read.mutable_job_spec()->mutable_data()->mutable_validation()}) {
    const auto& words = VocabularyOf(dataset)->list().values();
    REQUIRE(words.size() == 100'000);
    CHECK(words[0].s() == "a\\b\nc");
    CHECK(words[1].s().empty());
    CHECK(words[99'999].s() == "\xc3\xa4 word 99999");
  }

  const std::string next = Commit(dir, WithWords(2, 100'000));
  CHECK(fs::hard_link_count(WordsFileIn(next)) == 2);
  REQUIRE(DeleteCheckpoint(path).ok());
  CHECK(fs::hard_link_count(WordsFileIn(next)) == 1);
  CHECK(ReadManifest(next).ok());
  const std::string other = Commit(dir, WithWords(3, 100'001));
  CHECK(fs::hard_link_count(WordsFileIn(other)) == 1);
  CHECK(fs::path(WordsFileIn(other)).filename() != fs::path(WordsFileIn(next)).filename());
}

TEST_CASE("a few words stay in the manifest, as older versions wrote all") {
  TestDirectory dir;
  const std::string path = Commit(dir, WithWords(1, 100));
  CHECK(WordsFileIn(path).empty());
  const v1::Manifest read = *ReadManifest(path);
  CHECK(read.format_version() == 1);
  CHECK(read.job_spec().SerializeAsString().size() ==
        WithWords(1, 100).job_spec().SerializeAsString().size());
}

TEST_CASE("a manifest of an older version has all of its words") {
  TestDirectory dir;
  v1::Manifest old = WithWords(1, 3);
  const std::string path = Commit(dir, old);
  std::string json = testing::ReadAllBytes(path + "/manifest.json");
  const std::string longer(20'000, 'x');
  json.replace(json.rfind("\xc3\xa4 word 2"), 9, longer);
  testing::WriteAllBytes(path + "/manifest.json", json);
  testing::WriteAllBytes(
      path + "/manifest.json.crc",
      fmt::format("{:08x} {}\n", Crc32(0, json.data(), json.size()), json.size()));
  v1::Manifest read = *ReadManifest(path);
  CHECK(VocabularyOf(read.mutable_job_spec()->mutable_data()->mutable_validation())
            ->list()
            .values(2)
            .s() == longer);
  // The next checkpoint of the job has them in files.
  read.set_cut(2);
  CHECK(!WordsFileIn(Commit(dir, read)).empty());
}

TEST_CASE("a chief that ends between the words and the manifest leaves no checkpoint") {
  TestDirectory dir;
  Commit(dir, WithWords(1, 5'000));
  v1::Manifest cut_off = WithWords(2, 6'000);
  const std::string path = Prepare(dir, cut_off);
  REQUIRE(StoreWords(path, &cut_off).ok());
  CHECK((*NewestValid(dir.path(), nullptr))->id.cut == 1);
  // The next chief finds the words whole, and uses them.
  const std::string next = Commit(dir, WithWords(3, 6'000));
  CHECK(fs::hard_link_count(WordsFileIn(next)) == 2);
  CHECK(DeleteOldCheckpoints(dir.path(), {.max_to_keep = 2})->size() == 1);
  CHECK(!fs::exists(path));
  CHECK(fs::hard_link_count(WordsFileIn(next)) == 1);
}

TEST_CASE("words that are damaged or missing make a checkpoint one that is not whole") {
  TestDirectory dir;
  Commit(dir, WithWords(1, 5'000));
  const std::string path = Commit(dir, WithWords(2, 6'000));
  const std::string words = WordsFileIn(path);
  std::string bytes = testing::ReadAllBytes(words);
  SECTION("damaged") {
    bytes[100] = 'X';
    testing::WriteAllBytes(words, bytes);
    CHECK(testing::Message(ReadManifest(path).status()) ==
          words + ": its size or checksum is not what the manifest says");
    // It is no source for a later checkpoint.
    CHECK(ReadManifest(Commit(dir, WithWords(3, 6'000))).ok());
    return;
  }
  SECTION("missing") {
    fs::remove(words);
    CHECK(Contains(testing::Message(ReadManifest(path).status()), words));
  }
  CHECK(absl::IsDataLoss(ReadManifest(path).status()));
  CHECK((*NewestValid(dir.path(), nullptr))->id.cut == 1);
}

TEST_CASE("a full disk fails the commit, and the words are written later") {
  TestDirectory dir;
  const v1::Manifest manifest = WithWords(1, 5'000);
  const std::string path = Prepare(dir, manifest);
  {
    testing::FullDisk full(1000);
    CHECK(absl::IsResourceExhausted(CommitManifest(path, manifest)));
  }
  CHECK(WordsFileIn(path).empty());
  REQUIRE(CommitManifest(path, manifest).ok());
  CHECK(ReadManifest(path).ok());
}

}  // namespace
}  // namespace cohort
