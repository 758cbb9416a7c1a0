#ifndef COHORT_COMMON_BASE_EXIT_CODE_H_
#define COHORT_COMMON_BASE_EXIT_CODE_H_

#include <absl/status/status.h>

#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace cohort {

// How a process ends: the codes of sysexits(3), and one more. If another try may succeed, the code
// is 100 more, as TFJob, Kubernetes and systemd's units restart a task that ends with 128 or more.
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,       // the command line is wrong
  kData = 65,        // the input (a job file, a data set, a checkpoint) is wrong
  kNoInput = 66,     // the input does not exist
  kSoftware = 70,    // a defect in Cohort
  kOs = 71,          // a program cannot be executed
  kCantCreate = 73,  // an output cannot be created
  kIo = 74,          // reading or writing failed, or a limit was exceeded
  kNoPermission = 77,
  // TF_CONFIG; an address; a directory that is not shared, or whose job is finished or another one.
  kConfig = 78,
  kStopped = 79,  // `cohort ctl RUN stop` has ended the job; a later start continues it
  // Another try may succeed.
  kUnavailable = 169,  // another task did not arrive, or was lost
  kNoMemory = 171,     // the system refuses memory or threads
  kTempFail = 175,     // cancelled, aborted, or a disk is full
};

// Returns true if another try may end in another way: the codes from 128 on, which include signals,
// and those of programs that do not have these codes.
constexpr bool IsWorthAnotherTry(int exit_code) {
  return exit_code >= 128 || (exit_code != 0 && exit_code < static_cast<int>(ExitCode::kUsage));
}

// 128 + signal, as shells count: 143 for SIGTERM, 130 for SIGINT.
constexpr int ExitCodeOfSignal(int signal) { return 128 + signal; }

// The exit code of a status: the one that WithExitCode attached, else the one from this table:
//
//   OK                                                     0
//   InvalidArgument, OutOfRange, DataLoss, Unimplemented  65
//   NotFound                                              66
//   Unavailable, DeadlineExceeded                        169
//   AlreadyExists                                         73
//   ResourceExhausted                                     74
//   Aborted, Cancelled                                   175
//   PermissionDenied, Unauthenticated                     77
//   FailedPrecondition                                    78
//   everything else                                       70
ExitCode ExitCodeOf(const absl::Status& status);

// Attaches the exit code with which a process that fails with this status ends. The code survives
// Annotate. OK stays OK.
absl::Status WithExitCode(absl::Status status, ExitCode code);

// An error of the command line: InvalidArgument with exit code 64.
template <typename... Args>
absl::Status UsageError(fmt::format_string<Args...> format, Args&&... args) {
  return WithExitCode(InvalidArgument(format, std::forward<Args>(args)...), ExitCode::kUsage);
}

// If the status is ResourceExhausted because a disk is full (exit code 74), attaches the exit code
// 175 instead: another try may succeed. For operations that a process needs at its start or before
// its work counts as done, so that a supervisor restarts it until there is space.
absl::Status TempFailIfDiskFull(absl::Status status);

// Writes "program: error: message" (Printable) to stderr, or to stdout if stderr cannot be written
// (a full disk). Returns the exit code: the last line of a main(). Writes nothing for OK.
int ExitWith(std::string_view program, const absl::Status& status);

// Writes a text (Printable) to stdout and flushes it. Error: exit code 74 if that fails, as on a
// full disk.
absl::Status WriteToStdout(std::string_view text);

// Makes lack of memory or threads end the process with "program: error: ..." and exit code 171
// instead of an abort. That covers an uncaught std::bad_alloc, a thread that the system refuses,
// and a library that aborts because memory is exhausted. Every other abort, and a SIGABRT from
// outside, keeps its default effect. `program` is a literal. The first call of every main().
void InstallTerminateHandler(const char* program);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_EXIT_CODE_H_
