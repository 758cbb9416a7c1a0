#ifndef COHORT_COMMON_BASE_EXIT_CODE_H_
#define COHORT_COMMON_BASE_EXIT_CODE_H_

#include <absl/status/status.h>

#include <string_view>

namespace cohort {

// How a process ends: the codes of sysexits(3).
enum class ExitCode : int {
  kOk = 0,
  kUsage = 64,        // the command line is wrong
  kData = 65,         // the input (a job file, a data set, a checkpoint) is wrong
  kNoInput = 66,      // the input is not there
  kUnavailable = 69,  // another task did not come, or went
  kSoftware = 70,     // a defect of Cohort
  kOs = 71,
  kCantCreate = 73,  // an output cannot be made
  kIo = 74,          // reading or writing failed, a disk is full
  kTempFail = 75,    // cancelled or aborted, or no room to begin or end: worth another try
  kNoPermission = 77,
  kConfig = 78,  // TF_CONFIG, an address, a directory that is not shared
};

// 128 + signal, as shells count: 143 of SIGTERM, 130 of SIGINT.
constexpr int ExitCodeOfSignal(int signal) { return 128 + signal; }

// The code of a status: what WithExitCode attached, else by this table.
//
//   OK                              0     InvalidArgument, OutOfRange, DataLoss,
//   NotFound                       66       Unimplemented (a key asks for what is not there)  65
//   Unavailable, DeadlineExceeded  69     AlreadyExists                                       73
//   Aborted, Cancelled             75     ResourceExhausted                                   74
//   PermissionDenied,                     FailedPrecondition                                  78
//     Unauthenticated              77     everything else                                     70
ExitCode ExitCodeOf(const absl::Status& status);

// Says how a process that ends with this status exits; survives Annotate. OK stays OK.
absl::Status WithExitCode(absl::Status status, ExitCode code);

// Where this status is for want of room alone (ResourceExhausted): that it is worth another try
// (75). Of what a process needs before it begins, or may call its work done: whoever starts it
// again does so until there is room.
absl::Status TempFailIfDiskFull(absl::Status status);

// Writes "program: error: message" (Printable) to stderr, or to stdout where stderr takes nothing
// (a full disk), and returns the exit code: the last line of a main(). Writes nothing for OK.
int ExitWith(std::string_view program, const absl::Status& status);

// What a program was asked to print, written (Printable) and flushed. Errors: exit 74 where it
// cannot be, as on a full disk.
absl::Status WriteToStdout(std::string_view text);

// From now on an exception that nobody catches, because memory is out or the system refuses a
// thread, ends the process with "program: error: ..." and 71 instead of an abort; so does a library
// that aborts for want of memory. Any other abort, and a SIGABRT from outside, ends it as ever.
// `program` is a literal. The first act of every main().
void InstallTerminateHandler(const char* program);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_EXIT_CODE_H_
