#include "common/base/open_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

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
    CHECK(OpenToAppend(path).status() == refused);
  }
  CHECK(absl::IsNotFound(OpenRegularFile(directory / "none").status()));
}

TEST_CASE("a file that is written at its end is made where it is not there") {
  const TestDirectory directory;
  const std::string path = directory / "log";
  for (const char* text : {"one ", "two"}) {
    const auto fd = OpenToAppend(path);
    REQUIRE(fd.ok());
    CHECK(::write(*fd, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text)));
    ::close(*fd);
  }
  CHECK(testing::ReadAllBytes(path) == "one two");
  CHECK(absl::IsNotFound(OpenToAppend(directory / "none/log").status()));
}

// A process that holds a lease of the file until somebody else wants it. It says so on a pipe.
pid_t HoldLease(const std::string& path, int* held) {
  int fds[2];
  REQUIRE(::pipe(fds) == 0);
  const pid_t pid = ::fork();
  if (pid != 0) {
    ::close(fds[1]);
    *held = fds[0];
    return pid;
  }
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGIO);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  const int fd = ::open(path.c_str(), O_RDWR);
  if (::fcntl(fd, F_SETLEASE, F_WRLCK) != 0) ::_exit(1);
  int signal = 0;
  if (::write(fds[1], "h", 1) != 1 || ::sigwait(&wanted, &signal) != 0) ::_exit(2);
  ::_exit(::fcntl(fd, F_SETLEASE, F_UNLCK) == 0 ? 0 : 3);
}

TEST_CASE("a file that somebody holds a lease of is opened once it is given back") {
  const TestDirectory directory;
  const std::string path = directory.Write("file", "abc");
  int held = -1;
  const pid_t holder = HoldLease(path, &held);
  char byte = 0;
  REQUIRE(::read(held, &byte, 1) == 1);
  ::close(held);
  const auto fd = OpenRegularFile(path);
  CHECK(fd.status() == absl::OkStatus());
  if (fd.ok()) ::close(*fd);
  int status = 0;
  REQUIRE(::waitpid(holder, &status, 0) == holder);
  CHECK(WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace cohort
