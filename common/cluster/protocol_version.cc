#include "common/cluster/protocol_version.h"

#include <charconv>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

std::string ProtocolVersion::ToString() const { return fmt::format("{}.{}", major, minor); }

std::optional<ProtocolVersion> ProtocolVersion::Parse(std::string_view text) {
  ProtocolVersion version;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, version.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, version.minor);
  if (second.ec != std::errc() || second.ptr != end) return std::nullopt;
  return version;
}

absl::Status CheckProtocol(std::string_view peer, const ProtocolVersion& peer_version,
                           std::string_view own, const ProtocolVersion& own_version) {
  if (peer_version.major == own_version.major) return absl::OkStatus();
  return WithExitCode(
      FailedPrecondition("{} speaks protocol {}, {} speaks {}: install the same major version of "
                         "Cohort for both",
                         peer, peer_version.ToString(), own, own_version.ToString()),
      ExitCode::kConfig);
}

}  // namespace cohort
