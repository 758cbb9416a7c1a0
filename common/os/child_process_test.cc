#include "common/os/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/unique_fd.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::ReadAllBytes;
using testing::TestDirectory;

std::unique_ptr<ChildProcess> Start(const ChildProcessOptions& options) {
  auto child = ChildProcess::Start(options);
  INFO(child.status());
  REQUIRE(child.ok());
  return *std::move(child);
}

std::vector<std::string> Shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

TEST_CASE("a child has its environment, directory and descriptors, and returns its exit code") {
  const TestDirectory dir;
  const std::string path = dir / "out";
  const UniqueFd out(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(setenv("COHORT_TEST_A", "old", 1) == 0);
  REQUIRE(setenv("COHORT_TEST_B", "kept", 1) == 0);
  ChildProcessOptions options{.argv = Shell("echo $COHORT_TEST_A $COHORT_TEST_B; pwd; exit 7"),
                              .environment = {{"COHORT_TEST_A", "new"}},
                              .directory = dir.path(),
                              .stdout_fd = out.get()};
  options.inherit_environment = GENERATE(true, false);
  const auto child = Start(options);
  CHECK(ExitCodeOfWait(child->Wait()) == 7);
  CHECK(child->ended());
  CHECK(!child->Poll().has_value());
  CHECK(ReadAllBytes(path) ==
        (options.inherit_environment ? "new kept\n" : "new\n") + dir.path() + "\n");
}

TEST_CASE("a program that cannot be executed is named, and leaves no process") {
  const TestDirectory dir;
  std::string program = dir / "bin/none";
  std::string advice = "install the complete suite of programs into one folder";
  SECTION("it does not exist") {}
  SECTION("it is not built") {
    dir.Write("CMakeCache.txt", "");
    advice = "build it: cmake --build " + dir.path() + " --target none";
  }
  SECTION("it is no program") {
    program = dir.Write("text", "text");
    advice = "";
  }
  const absl::Status refused = ChildProcess::Start({.argv = {program}}).status();
  CHECK(ExitCodeOf(refused) == ExitCode::kOs);
  CHECK(Contains(std::string(refused.message()), program + " cannot be executed: "));
  CHECK(Contains(std::string(refused.message()), advice));
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("a child that is killed counts as shells count it, and the destructor kills") {
  pid_t pid = 0;
  {
    const auto child = Start({.argv = Shell("sleep 1000 & wait"), .own_group = true});
    pid = child->pid();
    CHECK(getpgid(pid) == pid);
    CHECK(!child->Poll().has_value());
    if (GENERATE(true, false)) {
      child->Signal(SIGTERM);
      CHECK(ExitCodeOfWait(child->Wait()) == ExitCodeOfSignal(SIGTERM));
    }
    kill(-pid, SIGKILL);  // its own child
  }
  CHECK(kill(pid, 0) != 0);
}

TEST_CASE("a child that is stopped and continued is seen, and has not ended") {
  const auto child = Start({.argv = {"/bin/sleep", "1000"}});
  const auto next = [&] {
    std::optional<int> status;
    while (!(status = child->Poll()).has_value()) usleep(1000);
    return *status;
  };
  child->Signal(SIGSTOP);
  CHECK(WIFSTOPPED(next()));
  child->Signal(SIGCONT);
  CHECK(WIFCONTINUED(next()));
  CHECK(!child->ended());
  child->Signal(SIGKILL);
  CHECK(ExitCodeOfWait(next()) == ExitCodeOfSignal(SIGKILL));
  CHECK(child->ended());
}

}  // namespace
}  // namespace cohort
