#include "chief/api/close_reason.h"

#include <absl/strings/ascii.h>

#include <string_view>

#include "common/base/status.h"

namespace cohort {
namespace {

struct Reason {
  std::string_view part;  // a part of the library's text, in lower case
  std::string_view plain;
};

constexpr std::string_view kForeign = "the program at this address is not a Cohort task";

// The first match counts.
constexpr Reason kReasons[] = {
    {"unknown method", "another program answers at this address (a task of another role?)"},
    {"http", kForeign},  // "Received http2 header with status: 404"
    {"grpc", kForeign},
    {"connection refused", "connection refused"},
    {"no such file or directory", "connection refused"},  // a Unix socket without a server
    {"connection reset", "the connection was reset"},
    {"broken pipe", "the connection was reset"},
    {"no route to host", "no route to the host"},
    {"network is unreachable", "the network is unreachable"},
    {"dns resolution failed", "the host name cannot be resolved"},
    {"name resolution", "the host name cannot be resolved"},
    {"domain name not found", "the host name cannot be resolved"},
    {"keepalive", "it does not answer"},
    {"ping timeout", "it does not answer"},
    {"timed out", "the connection timed out"},
    {"failed to connect", "it cannot be reached"},
    {"empty address list", "the host name cannot be resolved"},
    {"socket closed", "the connection was closed"},
    {"stream removed", "the connection was closed"},
    {"goaway", "the connection was closed"},
    {"endpoint closing", "the connection was closed"},
    {"rst_stream", "the connection was closed"},
    {"end of tcp stream", "the connection was closed"},
};

}  // namespace

std::string CloseReason(const absl::Status& status, std::string_view address) {
  if (status.ok()) return "it closed the stream";
  std::string text(status.message());
  if (text.starts_with(fmt::format("{}: ", address))) text.erase(0, address.size() + 2);
  // A task never ends a stream with these codes and a text of its own, except "unknown method".
  const bool is_the_library = absl::IsUnknown(status) || absl::IsUnimplemented(status);
  const bool may_be_the_library =
      is_the_library || absl::IsUnavailable(status) || absl::IsInternal(status);
  if (may_be_the_library && !GetFailure(status).has_value()) {
    const std::string lower = absl::AsciiStrToLower(text);
    for (const Reason& reason : kReasons) {
      if (lower.find(reason.part) != std::string::npos) return std::string(reason.plain);
    }
    if (is_the_library) return std::string(kForeign);
  }
  return text;
}

}  // namespace cohort
