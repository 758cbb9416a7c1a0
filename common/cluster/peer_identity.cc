#include "common/cluster/peer_identity.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::string_view kScheme = "cohort://";
constexpr std::string_view kPeerRoleNames[kNumPeerRoles] = {"chief", "worker", "ps", "evaluator",
                                                            "client"};

absl::Status Malformed(std::string_view uri) {
  return InvalidArgument(
      "\"{}\" is not an identity: expected cohort://CLUSTER/ROLE or cohort://CLUSTER/ROLE/INDEX, "
      "with a ROLE of {}",
      uri, fmt::join(kPeerRoleNames, ", "));
}

// The text before the next '/', which is removed with it. `more` is false if there was no '/'.
std::string_view Take(std::string_view* text, bool* more) {
  const size_t end = text->find('/');
  const std::string_view part = text->substr(0, end);
  *more = end != text->npos;
  *text = *more ? text->substr(end + 1) : std::string_view();
  return part;
}

std::optional<int> ParseIndex(std::string_view text) {
  int index = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
  if (!whole || index < 0 || fmt::to_string(index) != text) return std::nullopt;
  return index;
}

}  // namespace

std::string_view PeerRoleName(PeerRole role) { return kPeerRoleNames[static_cast<int>(role)]; }

PeerRole PeerRoleOf(Role role) {
  switch (role) {
    case Role::kChief:
      return PeerRole::kChief;
    case Role::kWorker:
      return PeerRole::kWorker;
    case Role::kPs:
      return PeerRole::kPs;
    case Role::kEvaluator:
      break;
  }
  return PeerRole::kEvaluator;
}

std::string PeerIdentity::ToString() const {
  std::string uri = fmt::format("{}{}/{}", kScheme, cluster, PeerRoleName(role));
  if (index.has_value()) uri += fmt::format("/{}", *index);
  return uri;
}

bool IsClusterName(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                              "XYZ0123456789._-") == name.npos;
}

absl::StatusOr<PeerIdentity> ParsePeerIdentity(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return Malformed(uri);
  std::string_view rest = uri.substr(kScheme.size());
  bool more = false;
  PeerIdentity identity;
  identity.cluster = std::string(Take(&rest, &more));
  if (!more || !IsClusterName(identity.cluster)) return Malformed(uri);
  const auto* const name =
      std::find(std::begin(kPeerRoleNames), std::end(kPeerRoleNames), Take(&rest, &more));
  if (name == std::end(kPeerRoleNames)) return Malformed(uri);
  identity.role = static_cast<PeerRole>(name - std::begin(kPeerRoleNames));
  if (!more) return identity;
  identity.index = ParseIndex(rest);
  if (!identity.index.has_value()) return Malformed(uri);
  return identity;
}

absl::StatusOr<PeerIdentity> FindPeerIdentity(const std::vector<std::string>& uris) {
  std::optional<PeerIdentity> found;
  for (const std::string& uri : uris) {
    if (!uri.starts_with(kScheme)) continue;
    COHORT_ASSIGN_OR_RETURN(PeerIdentity identity, ParsePeerIdentity(uri));
    if (found.has_value()) {
      return InvalidArgument("the certificate has two identities, {} and {}", found->ToString(),
                             identity.ToString());
    }
    found = std::move(identity);
  }
  if (found.has_value()) return *std::move(found);
  return InvalidArgument(
      "the certificate has no URI cohort://CLUSTER/ROLE/INDEX in its subject alternative name");
}

}  // namespace cohort
