#include "common/cluster/socket_directory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>

#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// Returns a listening socket with a name; close it to stop listening.
int Bind(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.c_str(), path.size());
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  REQUIRE(listen(fd, 1) == 0);
  return fd;
}

std::string WhyNot(const SocketDirectoryRoots& roots) {
  const auto made = OwnSocketDirectory(roots);
  REQUIRE_FALSE(made.ok());
  return std::string(made.status().message());
}

TEST_CASE("a user's socket directory is created once, and only that user can enter it") {
  const TestDirectory tmp;
  const TestDirectory run;
  const SocketDirectoryRoots roots = {.runtime_dir = run.path(), .temporary = tmp.path()};
  REQUIRE(OwnSocketDirectory(roots).value() == run / "cohort");
  REQUIRE(ModeOf(run / "cohort") == 0700);
  REQUIRE(std::filesystem::is_empty(run / "cohort"));
  REQUIRE(OwnSocketDirectory(roots).value() == run / "cohort");
  const std::string in_tmp = tmp / ("cohort-" + std::to_string(geteuid()));
  REQUIRE(OwnSocketDirectory({.temporary = tmp.path()}).value() == in_tmp);
  REQUIRE(ModeOf(in_tmp) == 0700);
  REQUIRE(chmod(run.path().c_str(), 0770) == 0);  // other users may replace it
  REQUIRE(OwnSocketDirectory(roots).value() == in_tmp);
  REQUIRE(chmod(run.path().c_str(), 0700) == 0);
  if (geteuid() == 0) {  // a root shell with another user's directory
    REQUIRE(chown(run.path().c_str(), 12345, 12345) == 0);
    REQUIRE(OwnSocketDirectory(roots).value() == in_tmp);
  }
  // No runtime directory.
  for (const std::string& other : {run / "none", std::string("run"), std::string("/proc/1/none")}) {
    REQUIRE(OwnSocketDirectory({.runtime_dir = other, .temporary = tmp.path()}).value() == in_tmp);
  }
}

TEST_CASE("a directory that other users could have created is not used") {
  const TestDirectory tmp;
  const SocketDirectoryRoots roots = {.temporary = tmp.path()};
  const std::string path = tmp / ("cohort-" + std::to_string(geteuid()));
  SECTION("open to others") {
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    REQUIRE(chmod(path.c_str(), 0770) == 0);
    REQUIRE(Contains(WhyNot(roots), "is open to other users"));
  }
  SECTION("a link") {
    REQUIRE(mkdir((tmp / "mine").c_str(), 0700) == 0);
    REQUIRE(symlink((tmp / "mine").c_str(), path.c_str()) == 0);
    REQUIRE(Contains(WhyNot(roots), "is not a directory"));
  }
  SECTION("a file") {
    testing::WriteAllBytes(path, "");
    REQUIRE(Contains(WhyNot(roots), "is not a directory"));
  }
  SECTION("another user's") {
    if (geteuid() != 0) return;  // only root can change the owner
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    REQUIRE(chown(path.c_str(), 12345, 12345) == 0);
    REQUIRE(Contains(WhyNot(roots), "belongs to the user 12345"));
  }
  SECTION("the parent is missing") {
    REQUIRE(Contains(WhyNot({.temporary = tmp / "none"}), "No such file"));
  }
  SECTION("no socket can be made there") {
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    rlimit before = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit none = {0, before.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    const auto made = OwnSocketDirectory(roots);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE(Contains(made.status().ToString(), "cannot make a socket in"));
  }
  SECTION("a name that gRPC reads as another") {
    REQUIRE(mkdir((tmp / "a%41").c_str(), 0700) == 0);
    REQUIRE(Contains(WhyNot({.temporary = tmp / "a%41"}), "contains a %"));
  }
  SECTION("too long") {
    const std::string deep = tmp / std::string(80, 'x');
    REQUIRE(mkdir(deep.c_str(), 0700) == 0);
    REQUIRE(Contains(WhyNot({.temporary = deep}), "too long"));
  }
}

TEST_CASE("only sockets without a listener are removed from a directory") {
  const TestDirectory dir;
  const std::string live = SocketPath(dir.path(), 0, 1);
  const std::string dead = SocketPath(dir.path(), 0, 2);
  const std::string other = dir / "ps-mine.sock";
  REQUIRE(live == dir / "ps-0-0000000000000001.sock");
  const int listening = Bind(live);
  close(Bind(dead));
  close(Bind(other));
  const std::string file = dir.Write("ps-0-000000000000000a.sock", "x");
  RemoveDeadSockets(dir.path(), std::time(nullptr) + 30);
  REQUIRE(std::filesystem::exists(dead));  // it may be about to listen
  RemoveDeadSockets(dir.path(), std::time(nullptr) + 120);
  REQUIRE_FALSE(std::filesystem::exists(dead));
  REQUIRE(std::filesystem::exists(live));
  REQUIRE(std::filesystem::exists(other));
  REQUIRE(std::filesystem::exists(file));
  RemoveDeadSockets(dir / "none", std::time(nullptr));
  close(listening);
}

}  // namespace
}  // namespace cohort
