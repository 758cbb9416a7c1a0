#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "chief/job/job_directory.h"
#include "common/base/status.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::TestDirectory;

std::set<std::string> FilesIn(const std::string& directory) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file()) files.insert(entry.path());
  }
  return files;
}

TEST_CASE("a chief that loses the directory while --fresh deletes leaves what is left") {
  for (int allowed = 0;; ++allowed) {
    INFO(allowed);
    const TestDirectory dir;
    for (const char* name : {"/ckpt-1-1-1", "/ckpt-1-1-2", "/journal"}) {
      std::filesystem::create_directory(dir.path() + name);
    }
    for (const char* name :
         {"ckpt-1-1-1/manifest.json", "ckpt-1-1-2/manifest.json", "journal/journal-1",
          "journal/journal-2", "journal/generation-2", "control_note.json"}) {
      dir.Write(name, "bytes");
    }
    int asked = 0;
    std::set<std::string> left;
    const absl::Status status = DeleteFormerRuns(dir.path(), [&]() -> absl::Status {
      const auto files = FilesIn(dir.path());
      CHECK((asked == 0 || files.size() + 1 == left.size()));  // one at a time
      left = files;
      return asked++ == allowed ? Aborted("fenced") : absl::OkStatus();
    });
    if (status.ok()) {
      CHECK(allowed == 5);
      CHECK(FilesIn(dir.path()) == std::set<std::string>{dir / "journal/generation-2"});
      return;
    }
    CHECK(absl::IsAborted(status));
    CHECK(FilesIn(dir.path()) == left);
  }
}

TEST_CASE("--fresh deletes nothing if it cannot open the journal's directory") {
  const TestDirectory dir;
  std::filesystem::create_directory(dir.path() + "/ckpt-1-1-1");
  dir.Write("ckpt-1-1-1/manifest.json", "bytes");
  SECTION("a file has its name") { dir.Write("journal", "bytes"); }
  SECTION("a link that leads nowhere has its name") {
    std::filesystem::create_symlink(dir / "not-mounted", dir / "journal");
  }
  const auto before = FilesIn(dir.path());
  CHECK(!DeleteFormerRuns(dir.path(), [] { return absl::OkStatus(); }).ok());
  CHECK(FilesIn(dir.path()) == before);
}

}  // namespace
}  // namespace cohort
