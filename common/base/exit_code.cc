#include "common/base/exit_code.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "common/base/printable.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr char kExitCodeUrl[] = "cohort.dev/exit_code";

ExitCode ExitCodeOfStatusCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnimplemented:
      return ExitCode::kData;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNoInput;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kAlreadyExists:
      return ExitCode::kCantCreate;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kIo;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return ExitCode::kTempFail;
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kNoPermission;
    case absl::StatusCode::kFailedPrecondition:
      return ExitCode::kConfig;
    default:
      return ExitCode::kSoftware;
  }
}

constexpr char kOutOfMemory[] =
    "check `ulimit -v`, the container's memory limit and the other processes on this host";

const char* uncaught_program = "";
std::terminate_handler default_terminate = nullptr;

// Allocates no memory, because there may be none.
[[noreturn]] void EndWithoutMemory(const char* what, const char* why, const char* todo) {
  char line[400];
  const int size =
      std::snprintf(line, sizeof(line), "%s: error: %s%s; %s\n", uncaught_program, what, why, todo);
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, line, std::min(static_cast<size_t>(size), sizeof(line) - 1));
  _exit(static_cast<int>(ExitCode::kNoMemory));
}

void OnUncaught() {
  const std::exception_ptr uncaught = std::current_exception();
  try {
    if (uncaught != nullptr) std::rethrow_exception(uncaught);
  } catch (const std::bad_alloc&) {
    EndWithoutMemory("out of memory", "", kOutOfMemory);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      EndWithoutMemory("cannot start a thread: ", error.what(),
                       "check `ulimit -u`, `ulimit -v` and the container's limits");
    }
  } catch (...) {
  }
  default_terminate();
}

// True if the system refuses a block of the size that an allocator requests at once.
bool IsOutOfMemory() {
  constexpr size_t kBytes = size_t{64} << 20;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return true;
  munmap(memory, kBytes);
  return false;
}

// gRPC aborts without a message if malloc fails. errno alone is no proof: an ENOMEM that the
// process survived stays there. Every other abort continues. A SIGABRT that another process sends
// must be raised again, because the return of this handler alone would let the process live.
void OnAbort(int signal, siginfo_t* info, void*) {
  const bool own = info->si_code == SI_TKILL && info->si_pid == getpid();
  if (own && errno == ENOMEM && IsOutOfMemory()) {
    EndWithoutMemory("out of memory", "", kOutOfMemory);
  }
  ::signal(signal, SIG_DFL);
  raise(signal);  // when this returns
}

}  // namespace

absl::Status WriteToStdout(std::string_view unchecked) {
  const std::string text = Printable(unchecked);
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) == 0 && whole) return absl::OkStatus();
  return WithExitCode(Unavailable("cannot write to the standard output: {}",
                                  std::generic_category().message(errno)),
                      ExitCode::kIo);
}

void InstallTerminateHandler(const char* program) {
  uncaught_program = program;
  default_terminate = std::set_terminate(OnUncaught);
  // Without a handler the allocator's `new` would abort instead of throwing.
  std::set_new_handler([] { throw std::bad_alloc(); });
  struct sigaction action = {};
  action.sa_sigaction = OnAbort;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGABRT, &action, nullptr);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kExitCodeUrl); payload.has_value()) {
    const std::string text(*payload);
    int code = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), code);
    if (result.ec == std::errc()) return static_cast<ExitCode>(code);
  }
  return ExitCodeOfStatusCode(status.code());
}

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  if (!status.ok()) {
    status.SetPayload(kExitCodeUrl, absl::Cord(fmt::to_string(static_cast<int>(code))));
  }
  return status;
}

absl::Status TempFailIfDiskFull(absl::Status status) {
  const bool room = absl::IsResourceExhausted(status) && ExitCodeOf(status) == ExitCode::kIo;
  return room ? WithExitCode(std::move(status), ExitCode::kTempFail) : status;
}

int ExitWith(std::string_view program, const absl::Status& status) {
  if (!status.ok()) {
    const absl::string_view message = status.message();
    const std::string line =
        fmt::format("{}: error: {}\n", program, Printable({message.data(), message.size()}));
    // A pipe that nobody reads must not keep the process alive.
    pollfd out = {STDERR_FILENO, POLLOUT, 0};
    if (poll(&out, 1, /*timeout_ms=*/2000) == 0) return static_cast<int>(ExitCodeOf(status));
    const bool written = std::fwrite(line.data(), 1, line.size(), stderr) == line.size();
    // stderr may be a file on a full disk, which may be the reason for this error.
    if (!written) std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace cohort
