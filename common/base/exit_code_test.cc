#include "common/base/exit_code.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <new>
#include <system_error>

#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("a status maps to the code of its kind") {
  REQUIRE(ExitCodeOf(absl::OkStatus()) == ExitCode::kOk);
  REQUIRE(ExitCodeOf(InvalidArgument("")) == ExitCode::kData);
  REQUIRE(ExitCodeOf(DataLoss("")) == ExitCode::kData);
  REQUIRE(ExitCodeOf(Unimplemented("")) == ExitCode::kData);
  REQUIRE(ExitCodeOf(NotFound("")) == ExitCode::kNoInput);
  REQUIRE(ExitCodeOf(DeadlineExceeded("")) == ExitCode::kUnavailable);
  REQUIRE(ExitCodeOf(Unavailable("")) == ExitCode::kUnavailable);
  REQUIRE(ExitCodeOf(AlreadyExists("")) == ExitCode::kCantCreate);
  REQUIRE(ExitCodeOf(ResourceExhausted("")) == ExitCode::kIo);
  REQUIRE(ExitCodeOf(Aborted("")) == ExitCode::kTempFail);
  REQUIRE(ExitCodeOf(PermissionDenied("")) == ExitCode::kNoPermission);
  REQUIRE(ExitCodeOf(FailedPrecondition("")) == ExitCode::kConfig);
  REQUIRE(ExitCodeOf(Internal("")) == ExitCode::kSoftware);
}

TEST_CASE("a code from 128 on is worth another try, and no other code of Cohort is") {
  for (const absl::Status& status : {Unavailable(""), DeadlineExceeded(""), Aborted(""),
                                     Cancelled(""), TempFailIfDiskFull(ResourceExhausted(""))}) {
    CHECK(IsWorthAnotherTry(static_cast<int>(ExitCodeOf(status))));
    CHECK(static_cast<int>(ExitCodeOf(status)) >= 128);
  }
  for (const absl::Status& status :
       {InvalidArgument(""), NotFound(""), AlreadyExists(""), ResourceExhausted(""),
        PermissionDenied(""), FailedPrecondition(""), Internal(""), absl::OkStatus()}) {
    CHECK(!IsWorthAnotherTry(static_cast<int>(ExitCodeOf(status))));
  }
  CHECK(IsWorthAnotherTry(ExitCodeOfSignal(SIGTERM)));
  CHECK(!IsWorthAnotherTry(static_cast<int>(ExitCode::kStopped)));
  CHECK(IsWorthAnotherTry(1));  // a program that is not Cohort's has it
}

TEST_CASE("an attached exit code wins and survives annotation") {
  const absl::Status status =
      Annotate(WithExitCode(InvalidArgument("no such flag"), ExitCode::kUsage), "cohort");
  REQUIRE(ExitCodeOf(status) == ExitCode::kUsage);
  REQUIRE(ExitCodeOf(WithExitCode(status, ExitCode::kConfig)) == ExitCode::kConfig);
  REQUIRE(WithExitCode(absl::OkStatus(), ExitCode::kUsage).ok());
  REQUIRE(ExitWith("exit_code_test", status) == 64);
  REQUIRE(ExitWith("exit_code_test", absl::OkStatus()) == 0);
}

void ThrowWhatNobodyCatches(bool memory) noexcept(false) {
  if (memory) throw std::bad_alloc();
  throw std::system_error(EAGAIN, std::generic_category());
}

TEST_CASE("an uncaught lack of memory or threads ends a process with 171 and a reason") {
  for (const bool memory : {true, false}) {
    int fds[2];
    REQUIRE(pipe(fds) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(fds[1], STDERR_FILENO);
      InstallTerminateHandler("prog");
      errno = 0;
      [&]() noexcept { ThrowWhatNobodyCatches(memory); }();
    }
    close(fds[1]);
    char text[400] = {};
    REQUIRE(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK(WEXITSTATUS(status) == 171);
    CHECK_THAT(text, Catch::StartsWith(memory ? "prog: error: out of memory"
                                              : "prog: error: cannot start a thread: "));
  }
}

// Returns how a process that runs this ends. It writes no core.
int WaitStatusOf(const std::function<void()>& act) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit none = {};
    setrlimit(RLIMIT_CORE, &none);
    InstallTerminateHandler("prog");
    act();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

TEST_CASE("an abort for another reason than memory stays an abort") {
  for (const int error : {0, EIO, ENOMEM}) {  // ENOMEM: left from an earlier call
    INFO(error);
    const int status = WaitStatusOf([error] {
      errno = error;
      std::abort();
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
  }
}

TEST_CASE("a SIGABRT from outside ends a process, whatever its errno") {
  for (const int error : {0, ENOMEM}) {
    INFO(error);
    const int status = WaitStatusOf([error] {
      errno = error;
      kill(getpid(), SIGABRT);
    });
    REQUIRE(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
  }
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COHORT_HANDLERS_SEE_NO_ERRNO
#endif
#endif

#ifndef COHORT_HANDLERS_SEE_NO_ERRNO
TEST_CASE("a library that aborts because memory is exhausted ends a process with 171") {
  const int status = WaitStatusOf([] {
    const rlimit none = {};  // no more than now
    setrlimit(RLIMIT_AS, &none);
    errno = ENOMEM;
    std::abort();
  });
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 171);
}
#endif

TEST_CASE("signals end a process with the code that shells use") {
  REQUIRE(ExitCodeOfSignal(SIGTERM) == 143);
  REQUIRE(ExitCodeOfSignal(SIGINT) == 130);
}

}  // namespace
}  // namespace cohort
