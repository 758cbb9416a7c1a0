#include "common/base/crash_point.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

namespace cohort {
namespace {

// Runs `body` in a child. Returns the child's wait status and what it wrote to stderr.
std::pair<int, std::string> InChild(void (*body)()) {
  int fds[2];
  REQUIRE(pipe(fds) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(fds[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(fds[1]);
  std::string text;
  char buffer[256];
  ssize_t n = 0;
  while ((n = read(fds[0], buffer, sizeof(buffer))) > 0)
    text.append(buffer, static_cast<size_t>(n));
  close(fds[0]);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return {status, text};
}

TEST_CASE("an armed point logs a line and kills its process at the nth hit") {
  const auto [status, text] = InChild([] {
    if (!ArmCrashPoint("ps.push.applied:3").ok()) _exit(9);
    for (int i = 0; i < 2; ++i) COHORT_CRASH_POINT("ps.push.applied");
    COHORT_CRASH_POINT("ps.push.received");
    if (CrashPointHits("ps.push.applied") != 2) _exit(8);
    COHORT_CRASH_POINT("ps.push.applied");
  });
  REQUIRE(WIFSIGNALED(status));
  REQUIRE(WTERMSIG(status) == SIGKILL);
  REQUIRE(text == "crash_point name=ps.push.applied nth=3\n");
}

TEST_CASE("a point with hold blocks its thread, and the process continues") {
  const auto [status, text] = InChild([] {
    // A pipe carries the line to a thread that ends the child when it has read it.
    const int out = dup(STDERR_FILENO);
    int fds[2];
    if (pipe(fds) != 0 || dup2(fds[1], STDERR_FILENO) < 0) _exit(9);
    std::thread([out, from = fds[0]] {
      char line[256];
      const ssize_t n = read(from, line, sizeof(line));
      if (n <= 0 || write(out, line, static_cast<size_t>(n)) != n) _exit(8);
      _exit(7);
    }).detach();
    if (!ArmCrashPoint("ps.push.applied:2:hold").ok()) _exit(6);
    for (int i = 0; i < 3; ++i) COHORT_CRASH_POINT("ps.push.applied");
    _exit(5);
  });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 7);
  REQUIRE(text == "crash_point name=ps.push.applied nth=2 held\n");
}

TEST_CASE("an unarmed point does nothing") {
  const auto [status, text] = InChild([] { COHORT_CRASH_POINT("ps.push.applied"); });
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(text.empty());
}

std::string last_action;

TEST_CASE("watched points count hits and run the action of the test") {
  WatchCrashPoints([](std::string_view name) { last_action = std::string(name); });
  COHORT_CRASH_POINT("worker.push.sent");
  COHORT_CRASH_POINT("worker.push.sent");
  REQUIRE(CrashPointHits("worker.push.sent") == 2);
  REQUIRE(CrashPointHits("worker.result.made") == 0);
  REQUIRE(last_action.empty());
  REQUIRE(ArmCrashPoint("worker.result.made").ok());
  COHORT_CRASH_POINT("worker.result.made");
  REQUIRE(last_action == "worker.result.made");
}

TEST_CASE("a wrong name or count is refused") {
  const absl::Status name = ArmCrashPoint("ps.push.aplied");
  REQUIRE(name.message() ==
          "unknown crash point \"ps.push.aplied\"; did you mean \"ps.push.applied\"?");
  for (const char* bad :
       {"ps.push.applied:", "ps.push.applied:0", "ps.push.applied:1x", "ps.push.applied:hold"}) {
    REQUIRE(ArmCrashPoint(bad).code() == absl::StatusCode::kInvalidArgument);
  }
  REQUIRE(CrashPointHits("no.such") == 0);
}

TEST_CASE("the list is sorted and has no duplicates") {
  const auto less_equal = [](auto a, auto b) { return a >= b; };
  REQUIRE(std::adjacent_find(std::begin(kCrashPoints), std::end(kCrashPoints), less_equal) ==
          std::end(kCrashPoints));
}

}  // namespace
}  // namespace cohort
