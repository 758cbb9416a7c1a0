#include "common/base/exit_code.h"

#include <absl/strings/cord.h>
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string>

namespace cohort {
namespace {

constexpr char kPayloadUrl[] = "cohort.dev/exit_code";

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

}  // namespace

ExitCode ExitCodeOf(const absl::Status& status) {
  if (const auto payload = status.GetPayload(kPayloadUrl); payload.has_value()) {
    const std::string text(*payload);
    int code = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), code);
    if (result.ec == std::errc()) return static_cast<ExitCode>(code);
  }
  return ExitCodeOfStatusCode(status.code());
}

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  if (!status.ok()) {
    status.SetPayload(kPayloadUrl, absl::Cord(fmt::to_string(static_cast<int>(code))));
  }
  return status;
}

int ExitWith(std::string_view program, const absl::Status& status) {
  if (!status.ok()) {
    const absl::string_view message = status.message();
    const std::string line =
        fmt::format("{}: error: {}\n", program, std::string_view(message.data(), message.size()));
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace cohort
