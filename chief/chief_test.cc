// The chief's process at its end.
#include "chief/chief.h"

#include <absl/base/config.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/os/signals.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

TEST_CASE("the chief reports why a job fails, also after a signal") {
  auto signals = SignalWaiter::Start();
  REQUIRE(signals.ok());
  std::string said;
  const auto log = *Logger::Create(
      {.to_stderr = false, .sink = [&](std::string_view line) { said.append(line); }});
  Chief::Options options;  // for a job that has no model
  options.job.log = log.get();
  options.on_outcome = [&] { (*signals)->Wake(); };
  options.on_done = [&] { (*signals)->NotifyDone(); };
  bool asked = false;
  SECTION("none has") {}
  SECTION("one has") {
    asked = true;
    raise(SIGTERM);
  }
  const auto chief = Chief::Start(std::move(options));
  REQUIRE(chief.ok());
  CHECK((*chief)->admin_port() == -1);  // it has none
  const int code = RunUntilEnd(chief->get(), signals->get(), log.get());
  const absl::Status why = (*chief)->Wait().status();
  INFO(why.ToString() << "\n" << said);
  REQUIRE(!why.ok());
  CHECK(code == (asked ? ExitCodeOfSignal(SIGTERM) : static_cast<int>(ExitCodeOf(why))));
  CHECK(testing::Contains(said, "failed") == asked);
  CHECK(testing::Contains(said, std::string(why.message())) == asked);
  CHECK(!testing::Contains(said, "ended_by_signal"));
}

#ifndef ABSL_HAVE_THREAD_SANITIZER  // which, at the end of a process, writes to the same log itself

// The writing end of a pipe that is full, and that nobody reads.
int FullPipe() {
  int ends[2];
  REQUIRE(pipe2(ends, O_NONBLOCK) == 0);
  const std::string bytes(4096, 'x');
  while (write(ends[1], bytes.data(), bytes.size()) > 0) {
  }
  REQUIRE(errno == EAGAIN);
  REQUIRE(fcntl(ends[1], F_SETFL, 0) == 0);
  return ends[1];
}

// As cohort-chief does, with a job that fails.
int EndOfFailingChief(int signal) {
  auto signals = SignalWaiter::Start();
  const auto log = Logger::Create({.to_stderr = true});
  if (!signals.ok() || !log.ok()) return 1;
  Chief::Options options;
  options.job.log = log->get();
  options.on_outcome = [&] { (*signals)->Wake(); };
  options.on_done = [&] { (*signals)->NotifyDone(); };
  if (signal != 0) raise(signal);
  const auto chief = Chief::Start(std::move(options));
  if (!chief.ok()) return 1;
  constexpr auto kLimit = std::chrono::milliseconds(200);
  return RunUntilEnd(chief->get(), signals->get(), log->get(),
                     {.stop = kLimit, .failed = kLimit, .moment = kLimit});
}

TEST_CASE("a failed chief ends under its code where its log does not take a line") {
  const int signal = GENERATE(0, SIGTERM);
  INFO(signal);
  const int full = FullPipe();
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(full, STDERR_FILENO);
    alarm(60);
    _exit(EndOfFailingChief(signal));
  }
  close(full);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  INFO(status);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) ==
        (signal == 0 ? static_cast<int>(ExitCode::kData) : ExitCodeOfSignal(SIGTERM)));
}

#endif

}  // namespace
}  // namespace cohort
