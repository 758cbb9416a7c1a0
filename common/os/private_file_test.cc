#include "common/os/private_file.h"

#include "common/os/private_file_test_util.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;

TEST_CASE("a file that other users can read or change is not private") {
  const testing::PrivateFile file;
  const std::string& path = file.path;
  CHECK(CheckPrivateFile(path).ok());
  CHECK(ReadPrivateFile(path, 10).value() == "secret");
  CHECK(absl::IsAlreadyExists(CreatePrivateFile(path, "again")));
  CHECK_THAT(Message(ReadPrivateFile(path, 5).status()), Contains("more than 5 bytes"));
  for (const mode_t mode : {0644, 0604, 0602, 0620, 0610, 0601}) {
    file.SetMode(mode);
    CHECK_THAT(Message(CheckPrivateFile(path)), Contains(path) && Contains("chmod 600"));
    CHECK_FALSE(ReadPrivateFile(path, 10).ok());
  }
  // As Kubernetes mounts the secrets of a pod: root owns them.
  file.SetMode(0440);
  CHECK(CheckPrivateFile(path).ok() == (geteuid() == 0));
}

TEST_CASE("what is not a file of this user is refused") {
  const testing::PrivateFile file;
  const testing::TestDirectory& directory = file.directory;
  CHECK_THAT(Message(CheckPrivateFile(directory / "none")), Contains("No such file"));
  CHECK_THAT(Message(ReadPrivateFile(directory.path(), 10).status()), Contains("is a directory"));
  if (geteuid() != 0) return;  // only root can change the owner
  REQUIRE(chown(file.path.c_str(), 12345, 12345) == 0);
  CHECK_THAT(Message(CheckPrivateFile(file.path)), Contains("belongs to the user 12345"));
}

TEST_CASE("a new private file does not follow a link") {
  testing::TestDirectory directory;
  REQUIRE(symlink((directory / "victim").c_str(), (directory / "key").c_str()) == 0);
  CHECK_FALSE(CreatePrivateFile(directory / "key", "secret").ok());
  CHECK(access((directory / "victim").c_str(), F_OK) != 0);
}

}  // namespace
}  // namespace cohort
