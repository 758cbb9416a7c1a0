#include "common/base/status.h"

#include <absl/strings/cord.h>

#include <charconv>

namespace cohort {
namespace {

constexpr char kPayloadUrl[] = "cohort.dev/failure";

}  // namespace

void SetFailure(absl::Status* status, const FailureInfo& info) {
  if (status->ok()) return;
  // The role is one of Cohort's own and has no spaces.
  status->SetPayload(kPayloadUrl,
                     absl::Cord(fmt::format("{} {} {} {}", info.role.empty() ? "-" : info.role,
                                            info.index, info.incarnation, info.retryable ? 1 : 0)));
}

std::optional<FailureInfo> GetFailure(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  FailureInfo info;
  const size_t space = text.find(' ');
  if (space == std::string::npos) return std::nullopt;
  info.role = text.substr(0, space);
  if (info.role == "-") info.role.clear();
  const char* at = text.data() + space + 1;
  const char* end = text.data() + text.size();
  int retryable = 0;
  auto r = std::from_chars(at, end, info.index);
  if (r.ec == std::errc() && r.ptr < end) r = std::from_chars(r.ptr + 1, end, info.incarnation);
  if (r.ec == std::errc() && r.ptr < end) r = std::from_chars(r.ptr + 1, end, retryable);
  if (r.ec != std::errc()) return std::nullopt;
  info.retryable = retryable != 0;
  return info;
}

bool IsRetryable(const absl::Status& status) {
  const auto info = GetFailure(status);
  return info.has_value() && info->retryable;
}

absl::Status Annotate(absl::Status status, std::string_view context) {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  absl::Status annotated(
      status.code(),
      fmt::format("{}: {}", context, std::string_view(message.data(), message.size())));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace cohort
