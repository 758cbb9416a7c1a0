#include "chief/job/former_job.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;
using testing::TestDirectory;

std::set<std::string> FilesBelow(const TestDirectory& dir) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
    if (entry.is_regular_file()) files.insert(entry.path().string().substr(dir.path().size() + 1));
  }
  return files;
}

void WriteJob(const TestDirectory& dir, const std::string& journal) {
  for (const char* name : {"ckpt-1-1-1", "ckpt-1-1-2", "journal"}) {
    std::filesystem::create_directory(dir / name);
  }
  dir.Write("ckpt-1-1-1/manifest.json", "one");
  dir.Write("ckpt-1-1-2/manifest.json", "two");
  dir.Write("journal/" + journal, "records");
  dir.Write("journal/generation-2", "");
}

absl::Status Yes() { return absl::OkStatus(); }

TEST_CASE("the checkpoints of the former job move to a directory of their own") {
  const TestDirectory dir;
  CHECK(!ReadFormerJob(dir.path())->has_value());
  WriteJob(dir, "journal-1");
  const auto first = SetJobAside(dir.path(), {1, 1, 2}, Yes);
  REQUIRE(first.ok());
  CHECK(first->CheckpointName() == "former-1/ckpt-1-1-2");
  const std::set<std::string> once = {"former-1/ckpt-1-1-1/manifest.json",
                                      "former-1/ckpt-1-1-2/manifest.json", "former_job",
                                      "journal/generation-2"};
  CHECK(FilesBelow(dir) == once);
  const auto note = ReadFormerJob(dir.path());
  REQUIRE(note.ok());
  REQUIRE(note->has_value());
  CHECK((*note)->moved);
  CHECK((*note)->checkpoint == CheckpointId{1, 1, 2});

  // The next job has another directory, and --fresh leaves both.
  WriteJob(dir, "journal-2");
  const auto second = SetJobAside(dir.path(), {1, 1, 1}, Yes);
  REQUIRE(second.ok());
  CHECK(second->directory == "former-2");
  CHECK(FilesBelow(dir).size() == once.size() + 2);
  REQUIRE(RemoveFormerNote(dir.path(), Yes).ok());
  CHECK(!ReadFormerJob(dir.path())->has_value());
  CHECK(FilesBelow(dir).size() == once.size() + 1);
}

// A chief that is killed, or loses the directory, before each of its changes: the next one finishes
// the same move.
TEST_CASE("a move that was interrupted is finished, and no second one begins") {
  for (int allowed = 0;; ++allowed) {
    INFO(allowed);
    const TestDirectory dir;
    WriteJob(dir, "journal-1");
    int asked = 0;
    const auto moved = SetJobAside(dir.path(), {1, 1, 2}, [&]() -> absl::Status {
      return asked++ == allowed ? Aborted("fenced") : absl::OkStatus();
    });
    if (moved.ok()) {
      CHECK(allowed == 5);
      return;
    }
    CHECK(absl::IsAborted(moved.status()));
    auto note = ReadFormerJob(dir.path());
    REQUIRE(note.ok());
    if (allowed == 0) {  // nothing has happened
      CHECK(!note->has_value());
      CHECK(FilesBelow(dir).size() == 4);
      continue;
    }
    REQUIRE(note->has_value());
    CHECK(!(*note)->moved);
    REQUIRE(FinishSettingAside(dir.path(), Yes, &**note).ok());
    CHECK((*note)->directory == "former-1");
    CHECK(FilesBelow(dir) == std::set<std::string>{"former-1/ckpt-1-1-1/manifest.json",
                                                   "former-1/ckpt-1-1-2/manifest.json",
                                                   "former_job", "journal/generation-2"});
    CHECK((*ReadFormerJob(dir.path()))->moved);
  }
}

TEST_CASE("a note that another program wrote is an error") {
  for (const char* text :
       {"", "directory former-1\n", "directory ../x\ncheckpoint ckpt-1-1-2\nmoved no\n",
        "directory former-1/..\ncheckpoint ckpt-1-1-2\nmoved no\n",
        "directory former-1\ncheckpoint c\nmoved no\n",
        "directory former-1\ncheckpoint ckpt-1-1-2\nmoved maybe\n"}) {
    INFO(text);
    const TestDirectory dir;
    dir.Write("former_job", text);
    const auto note = ReadFormerJob(dir.path());
    CHECK(absl::IsDataLoss(note.status()));
    CHECK_THAT(std::string(note.status().message()), Contains("former_job is damaged"));
  }
}

}  // namespace
}  // namespace cohort
