#include "common/base/exit_code.h"

#include <signal.h>

#include <catch2/catch.hpp>

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

TEST_CASE("an attached exit code wins and survives annotation") {
  const absl::Status status =
      Annotate(WithExitCode(InvalidArgument("no such flag"), ExitCode::kUsage), "cohort");
  REQUIRE(ExitCodeOf(status) == ExitCode::kUsage);
  REQUIRE(ExitCodeOf(WithExitCode(status, ExitCode::kConfig)) == ExitCode::kConfig);
  REQUIRE(WithExitCode(absl::OkStatus(), ExitCode::kUsage).ok());
  REQUIRE(ExitWith("exit_code_test", status) == 64);
  REQUIRE(ExitWith("exit_code_test", absl::OkStatus()) == 0);
}

TEST_CASE("signals end a process as shells count it") {
  REQUIRE(ExitCodeOfSignal(SIGTERM) == 143);
  REQUIRE(ExitCodeOfSignal(SIGINT) == 130);
}

}  // namespace
}  // namespace cohort
