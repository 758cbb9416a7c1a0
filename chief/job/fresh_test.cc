#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <string>

#include "chief/job/job_directory.h"
#include "common/base/status.h"
#include "common/testing/test_directory.h"

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
    for (const char* name : {"ckpt-1-1-1/manifest.json", "ckpt-1-1-2/manifest.json",
                             "journal/journal-1", "journal/journal-2", "journal/generation-2"}) {
      dir.Write(name, "bytes");
    }
    int asked = 0;
    std::set<std::string> left;
    const absl::Status status = DeleteFormerRuns(dir.path(), "id", [&]() -> absl::Status {
      const auto files = FilesIn(dir.path());
      CHECK((asked == 0 || files.size() + 1 == left.size()));  // one at a time
      left = files;
      return asked++ == allowed ? Aborted("fenced") : absl::OkStatus();
    });
    if (status.ok()) {
      CHECK(allowed == 5);
      CHECK(FilesIn(dir.path()) ==
            std::set<std::string>{dir / "journal/generation-2", dir / "journal/fresh"});
      return;
    }
    CHECK(absl::IsAborted(status));
    CHECK(FilesIn(dir.path()) == left);
  }
}

TEST_CASE("--fresh deletes nothing where it cannot be read for whom it has done so") {
  const TestDirectory dir;
  std::filesystem::create_directory(dir.path() + "/ckpt-1-1-1");
  std::filesystem::create_directory(dir.path() + "/journal");
  dir.Write("ckpt-1-1-1/manifest.json", "bytes");
  dir.Write("journal/journal-1", "bytes");
  SECTION("a directory has its name") { std::filesystem::create_directory(dir / "journal/fresh"); }
  SECTION("it is too long") { dir.Write("journal/fresh", std::string((1 << 20) + 1, 'x')); }
  SECTION("a file has its directory's name") {
    std::filesystem::rename(dir / "journal", dir / "away");
    dir.Write("journal", "bytes");
  }
  SECTION("its directory is behind a link that leads nowhere now") {
    std::filesystem::rename(dir / "journal", dir / "away");
    std::filesystem::create_symlink(dir / "not-mounted", dir / "journal");
  }
  const auto before = FilesIn(dir.path());
  const auto may = [] { return absl::OkStatus(); };
  CHECK(!DeleteFormerRuns(dir.path(), "id", may).ok());
  CHECK(FilesIn(dir.path()) == before);

  if (std::filesystem::exists(dir / "away")) {
    std::filesystem::remove(dir / "journal");
    std::filesystem::rename(dir / "away", dir / "journal");
  }
  std::filesystem::remove(dir / "journal/fresh");
  dir.Write("journal/fresh", "id");
  REQUIRE(DeleteFormerRuns(dir.path(), "id", may).ok());
  CHECK(std::filesystem::exists(dir / "journal/journal-1"));
  dir.Write("journal/fresh", std::string(4000, 'x'));  // another's, however long
  REQUIRE(DeleteFormerRuns(dir.path(), "id", may).ok());
  CHECK(FilesIn(dir.path()) == std::set<std::string>{dir / "journal/fresh"});
}

}  // namespace
}  // namespace cohort
