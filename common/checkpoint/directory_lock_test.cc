#include "common/checkpoint/directory_lock.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/lease_test_util.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::ReadAllBytes;
using testing::TestDirectory;

DirectoryLock::Options OptionsIn(const TestDirectory& dir, uint64_t incarnation) {
  return {.directory = dir.path(), .job = "job-1", .incarnation = incarnation};
}

TEST_CASE("a second chief is refused with the name of the first, until that lets go") {
  const TestDirectory dir;
  auto first = DirectoryLock::Take(OptionsIn(dir, 1));
  REQUIRE(first.ok());
  const std::string before = ReadAllBytes(dir / kLockName);
  const absl::Status refused = DirectoryLock::Take(OptionsIn(dir, 2)).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kUnavailable);
  CHECK(Contains(testing::Message(refused), fmt::format("process {} on host", ::getpid())));
  CHECK(Contains(testing::Message(refused), "job job-1, since 20"));
  CHECK(Contains(testing::Message(refused), "--takeover"));
  CHECK(ReadAllBytes(dir / kLockName) == before);
  CHECK((*first)->Check().ok());
  first->reset();
  CHECK(DirectoryLock::Take(OptionsIn(dir, 2)).ok());
}

TEST_CASE("takeover: the first finds out, and a third is refused by the second's name") {
  const TestDirectory dir;
  const auto first = DirectoryLock::Take(OptionsIn(dir, 1));
  REQUIRE(first.ok());
  auto options = OptionsIn(dir, 2);
  options.takeover = true;
  options.job = "job-2";
  auto second = DirectoryLock::Take(options);
  REQUIRE(second.ok());
  CHECK((*second)->Check().ok());
  const absl::Status fenced = (*first)->Check();
  CHECK(ExitCodeOf(fenced) == ExitCode::kUnavailable);
  CHECK(GetFailure(fenced)->role == "chief");
  CHECK(Contains(testing::Message(fenced), "is fenced"));
  CHECK(Contains(testing::Message(fenced), "job job-2"));
  CHECK(Contains(testing::Message(DirectoryLock::Take(OptionsIn(dir, 3)).status()), "job job-2"));
  second->reset();
  CHECK(!(*first)->Check().ok());  // it does not get it back
  CHECK(DirectoryLock::Take(OptionsIn(dir, 3)).ok());
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a holder that was killed is followed at once") {
  const TestDirectory dir;
  int held[2];
  REQUIRE(::pipe(held) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto lock = DirectoryLock::Take(OptionsIn(dir, 1));
    const char ok = lock.ok() ? 1 : 0;
    [[maybe_unused]] const ssize_t told = ::write(held[1], &ok, 1);
    while (true) ::pause();
  }
  char ok = 0;
  REQUIRE(::read(held[0], &ok, 1) == 1);
  REQUIRE(ok == 1);
  CHECK(!DirectoryLock::Take(OptionsIn(dir, 2)).ok());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(DirectoryLock::Take(OptionsIn(dir, 2)).ok());
  ::close(held[0]);
  ::close(held[1]);
}

// What a chief on another host writes.
constexpr const char* kOther =
    R"({"host":"host4","host_id":"other","incarnation":"01","job":"j","pid":8,"since":"then"})";

TEST_CASE("a directory that is deleted, moved or replaced is found out") {
  const TestDirectory dir;
  std::filesystem::create_directory(dir / "c");
  auto options = OptionsIn(dir, 1);
  options.directory = dir / "c";
  const auto lock = DirectoryLock::Take(options);
  REQUIRE(lock.ok());
  CHECK((*lock)->Check().ok());
  const auto gone = [&] {
    const absl::Status status = (*lock)->Check();
    CHECK(ExitCodeOf(status) == ExitCode::kIo);
    CHECK(Contains(testing::Message(status), dir / "c was deleted, moved or replaced"));
  };
  std::filesystem::rename(dir / "c", dir / "elsewhere");
  gone();
  SECTION("an empty one in its place") { std::filesystem::create_directory(dir / "c"); }
  SECTION("a copy in its place") { std::filesystem::copy(dir / "elsewhere", dir / "c"); }
  gone();
  std::filesystem::remove_all(dir / "c");
  std::filesystem::rename(dir / "elsewhere", dir / "c");
  CHECK((*lock)->Check().ok());
}

TEST_CASE("a file of the lock's name that no chief has written is refused, and left as it is") {
  const TestDirectory dir;
  const std::string bytes = GENERATE("{", "[1]", "\n", "\xff\xfe", "{\"host_id\": \"h\"}",
                                     "{\"incarnation\": \"01\"}", "{\"name\": \"precious\"}\n{}");
  dir.Write(kLockName, bytes);
  auto options = OptionsIn(dir, 1);
  options.takeover = GENERATE(false, true);
  const absl::Status refused = DirectoryLock::Take(options).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kCantCreate);
  CHECK(Contains(testing::Message(refused), "a file that no chief has written has this name"));
  CHECK(ReadAllBytes(dir / kLockName) == bytes);
}

TEST_CASE("a lock's file that somebody holds a lease of is taken once that is given back") {
  const TestDirectory dir;
  dir.Write(kLockName, "");
  testing::LeaseHolder holder(dir / kLockName);
  const auto lock = DirectoryLock::Take(OptionsIn(dir, 1));
  CHECK(lock.status() == absl::OkStatus());
  CHECK(holder.GaveBack());
}

void Socket(const std::string& path) {
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  REQUIRE(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  ::close(fd);
}

// What stands in a file's place; what it is, for people.
struct Strange {
  std::string_view what;
  std::function<void(const TestDirectory& dir, const std::string& path)> make;
};

const Strange kStrange[] = {
    {"a symbolic link",
     [](const TestDirectory&, const std::string& path) {
       std::filesystem::create_symlink("victim", path);
     }},
    {"a symbolic link",  // to itself
     [](const TestDirectory&, const std::string& path) {
       std::filesystem::create_symlink(kLockName, path);
     }},
    {"a symbolic link",  // to the file itself
     [](const TestDirectory& dir, const std::string& path) {
       if (std::filesystem::exists(dir / "away")) std::filesystem::create_symlink("away", path);
       if (!std::filesystem::exists(path)) std::filesystem::create_symlink("nowhere", path);
     }},
    {"a FIFO", [](const TestDirectory&,
                  const std::string& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
    {"a socket", [](const TestDirectory&, const std::string& path) { Socket(path); }},
    {"a directory", [](const TestDirectory&, const std::string& path) {
       std::filesystem::create_directory(path);
     }}};

TEST_CASE("an entry that has the lock's name but is not a file is refused, and left as it is") {
  const TestDirectory dir;
  dir.Write("victim", "precious");
  const Strange& strange = kStrange[GENERATE(range(0, 6))];
  strange.make(dir, dir / kLockName);
  auto options = OptionsIn(dir, 1);
  options.takeover = GENERATE(false, true);
  const absl::Status refused = DirectoryLock::Take(options).status();
  INFO(refused);
  CHECK(ExitCodeOf(refused) == ExitCode::kCantCreate);
  CHECK(Contains(
      testing::Message(refused),
      fmt::format("cannot create the lock {}: {} has this name", dir / kLockName, strange.what)));
  CHECK(ReadAllBytes(dir / "victim") == "precious");
  CHECK(!std::filesystem::exists(dir / "nowhere"));
}

TEST_CASE("the holder finds out when its file is removed, replaced or overwritten") {
  const TestDirectory dir;
  const auto lock = DirectoryLock::Take(OptionsIn(dir, 1));
  REQUIRE(lock.ok());
  dir.Write("victim", "precious");
  const std::string path = dir / kLockName;
  SECTION("removed") { std::filesystem::remove(path); }
  SECTION("something else has the name") {
    std::filesystem::rename(path, dir / "away");
    kStrange[GENERATE(range(0, 6))].make(dir, path);
  }
  SECTION("a copy") {
    std::filesystem::copy(path, dir / "copy");
    std::filesystem::rename(dir / "copy", path);
  }
  SECTION("other bytes") { dir.Write(kLockName, GENERATE("", "what is this")); }
  const absl::Status status = (*lock)->Check();
  CHECK(ExitCodeOf(status) == ExitCode::kIo);
  CHECK(Contains(testing::Message(status), "or its chief.lock was"));
}

TEST_CASE("a fenced chief reads its successor's name from the first line of the file") {
  const TestDirectory dir;
  const auto lock = DirectoryLock::Take(OptionsIn(dir, 1));
  REQUIRE(lock.ok());
  const std::string rest = GENERATE(as<std::string>{}, "", "\nob\":\"job-1\"}\n");
  dir.Write(kLockName, kOther + rest);
  CHECK(Contains(testing::Message((*lock)->Check()), "process 8 on host host4"));
}

}  // namespace
}  // namespace cohort
