#include "chief/api/owned_directory.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "chief/api/coordinator.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/file.h"
#include "common/testing/directory_test_util.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using testing::Contains;

struct Directory {
  Directory() {
    options.job = "job";
    options.checkpoint_dir = root / "checkpoints";
    options.chief_incarnation = 1;
  }
  testing::TestDirectory root;
  CoordinatorOptions options;
};

TEST_CASE("a directory is created and belongs to one chief at a time") {
  Directory d;
  auto owned = OwnedDirectory::Take(d.options);
  REQUIRE(owned.ok());
  CHECK((*owned)->Check().ok());
  CHECK(CheckDirectoryToken((*owned)->path(), (*owned)->token()).ok());
  CHECK(std::filesystem::is_directory((*owned)->journal_path()));
  ++d.options.chief_incarnation;
  CHECK(absl::IsUnavailable(OwnedDirectory::Take(d.options).status()));
  SECTION("it is free when the chief has ended") {
    owned->reset();
    CHECK(OwnedDirectory::Take(d.options).ok());
  }
  SECTION("another chief may take it over") {
    d.options.takeover = true;
    CHECK(OwnedDirectory::Take(d.options).ok());
    CHECK(absl::IsAborted((*owned)->Check()));
  }
}

TEST_CASE("empty directories of failed checkpoints go when a chief takes the directory") {
  Directory d;
  const std::string empty = d.options.checkpoint_dir + "/ckpt-1-1-3";
  REQUIRE(MakeDirectories(empty).ok());
  REQUIRE(OwnedDirectory::Take(d.options).ok());
  CHECK(!std::filesystem::exists(empty));
}

TEST_CASE("checkpoints without a journal are logged") {
  Directory d;
  std::string lines;
  const auto log =
      *Logger::Create({.to_stderr = false, .sink = [&](std::string_view line) { lines += line; }});
  const auto owned = *OwnedDirectory::Take(d.options);
  CHECK(owned->ReadJournal(log.get())->records.empty());
  CHECK(lines.empty());
  v1::Manifest manifest;
  manifest.set_timeline(1);
  manifest.set_generation(1);
  const std::string checkpoint = owned->path() + "/" + IdOf(manifest).ToString();
  REQUIRE(MakeDirectories(checkpoint).ok());
  REQUIRE(CommitManifest(checkpoint, manifest).ok());
  CHECK(owned->ReadJournal(log.get())->records.empty());
  CHECK(Contains(lines, "journal_missing"));
}

}  // namespace
}  // namespace cohort
