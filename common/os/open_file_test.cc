#include "common/os/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>

#include "common/base/exit_code.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/lease_test_util.h"

namespace cohort {
namespace {

using testing::TestDirectory;

TEST_CASE("a regular file is opened, anything else is refused without waiting") {
  const TestDirectory directory;
  const auto fd = OpenRegularFile(directory.Write("file", "abc"));
  REQUIRE(fd.ok());
  char bytes[4] = {};
  CHECK(::read(fd->get(), bytes, sizeof(bytes)) == 3);

  REQUIRE(::mkfifo((directory / "fifo").c_str(), 0600) == 0);
  const std::pair<std::string, std::string> others[] = {
      {directory / "fifo", "a FIFO"}, {directory.path(), "a directory"}, {"/dev/zero", "a device"}};
  for (const auto& [path, kind] : others) {
    const absl::Status refused = OpenRegularFile(path).status();
    CHECK(std::string(refused.message()) == path + " is " + kind + ", not a regular file");
    CHECK(ExitCodeOf(refused) == ExitCode::kData);
    CHECK(OpenToAppend(path).status() == refused);
  }
  CHECK(absl::IsNotFound(OpenRegularFile(directory / "none").status()));
}

TEST_CASE("an error about too many open files names the limit") {
  const absl::Status status = ErrnoStatus("cannot open", "/x", EMFILE);
  CHECK(std::string(status.message()) ==
        "cannot open /x: Too many open files (`ulimit -n` shows the limit)");
  CHECK(std::string(ErrnoStatus("cannot open", "/x", EIO).message()).find("ulimit") ==
        std::string::npos);
}

TEST_CASE("a file for appending is created if it is missing") {
  const TestDirectory directory;
  const std::string path = directory / "log";
  for (const char* text : {"one ", "two"}) {
    const auto fd = OpenToAppend(path);
    REQUIRE(fd.ok());
    CHECK(::write(fd->get(), text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text)));
  }
  CHECK(testing::ReadAllBytes(path) == "one two");
  CHECK(absl::IsNotFound(OpenToAppend(directory / "none/log").status()));
}

TEST_CASE("a leased file is opened once the lease is given back") {
  const TestDirectory directory;
  const std::string path = directory.Write("file", "abc");
  testing::LeaseHolder holder(path);
  const OpenedFile opened =
      OpenIfRegular(path, GENERATE(O_RDONLY, O_RDONLY | O_NOFOLLOW, O_RDWR | O_CREAT | O_NOFOLLOW,
                                   O_WRONLY | O_APPEND | O_CREAT));
  CHECK(opened.error == 0);
  REQUIRE(opened.fd.ok());
  CHECK(holder.GaveBack());
}

TEST_CASE("OpenIfRegular returns the type of the file or the error") {
  const TestDirectory directory;
  const std::string file = directory.Write("file", "abc");
  std::filesystem::create_symlink("file", directory / "link");
  const OpenedFile followed = OpenIfRegular(directory / "link", O_RDONLY);
  CHECK(followed.fd.ok());
  const OpenedFile link = OpenIfRegular(directory / "link", O_RDWR | O_CREAT | O_NOFOLLOW);
  CHECK(!link.fd.ok());
  CHECK(link.error == 0);
  CHECK(S_ISLNK(link.mode));
  CHECK(OpenIfRegular(directory / "none", O_RDONLY).error == ENOENT);
  const OpenedFile made = OpenIfRegular(directory / "none", O_RDWR | O_CREAT | O_NOFOLLOW);
  CHECK(made.fd.ok());
}

}  // namespace
}  // namespace cohort
