#ifndef COHORT_COMMON_CLUSTER_PEER_IDENTITY_H_
#define COHORT_COMMON_CLUSTER_PEER_IDENTITY_H_

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/cluster/cluster_spec.h"

namespace cohort {

// The roles that a certificate may state: those of tasks, and the readers of a cluster (`cohort
// ctl`, dashboards, health checks).
enum class PeerRole { kChief = 0, kWorker = 1, kPs = 2, kEvaluator = 3, kClient = 4 };
inline constexpr int kNumPeerRoles = 5;

// "chief", "worker", "ps", "evaluator", "client".
std::string_view PeerRoleName(PeerRole role);
PeerRole PeerRoleOf(Role role);

// Who a certificate says that its owner is. The URI in the subject alternative name has the form
//
//   cohort://CLUSTER/ROLE/INDEX    one task
//   cohort://CLUSTER/ROLE          any task of the role
//
// CLUSTER is a word of letters, digits, '.', '_' and '-'.
struct PeerIdentity {
  std::string cluster;
  PeerRole role = PeerRole::kClient;
  std::optional<int> index;

  std::string ToString() const;  // the URI
  // True if the certificate is good for the task.
  bool Covers(PeerRole wanted, int wanted_index) const {
    return role == wanted && (!index.has_value() || *index == wanted_index);
  }
  bool operator==(const PeerIdentity&) const = default;
};

// True if the text may name a cluster in a certificate.
bool IsClusterName(std::string_view name);

// Errors: InvalidArgument.
absl::StatusOr<PeerIdentity> ParsePeerIdentity(std::string_view uri);

// The one identity among the URIs of a certificate; other schemes are ignored. Errors:
// InvalidArgument if there is none, or several.
absl::StatusOr<PeerIdentity> FindPeerIdentity(const std::vector<std::string>& uris);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_PEER_IDENTITY_H_
