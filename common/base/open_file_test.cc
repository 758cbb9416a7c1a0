#include "common/base/open_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "common/base/test_directory.h"

namespace cohort {
namespace {

using testing::TestDirectory;

TEST_CASE("a regular file is opened, anything else is refused without waiting") {
  const TestDirectory directory;
  const auto fd = OpenRegularFile(directory.Write("file", "abc"));
  REQUIRE(fd.ok());
  char bytes[4] = {};
  CHECK(::read(*fd, bytes, sizeof(bytes)) == 3);
  ::close(*fd);

  REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
  const std::pair<std::string, std::string> others[] = {
      {directory / "fifo", "a FIFO"}, {directory.path(), "a directory"}, {"/dev/zero", "a device"}};
  for (const auto& [path, kind] : others) {
    const absl::Status refused = OpenRegularFile(path).status();
    CHECK(std::string(refused.message()) == path + " is " + kind + ", not a regular file");
    CHECK(ExitCodeOf(refused) == ExitCode::kData);
  }
  CHECK(absl::IsNotFound(OpenRegularFile(directory / "none").status()));
}

}  // namespace
}  // namespace cohort
