#ifndef COHORT_COMMON_CLUSTER_METHOD_TABLE_H_
#define COHORT_COMMON_CLUSTER_METHOD_TABLE_H_

#include <span>
#include <string_view>

#include "common/cluster/peer_identity.h"

namespace cohort {

// Which roles may call a method. docs/cluster.md shows this table.
struct MethodRule {
  std::string_view method;  // "/cohort.v1.Worker/Control"
  unsigned callers = 0;     // one bit per PeerRole

  bool Allows(PeerRole role) const { return ((callers >> static_cast<int>(role)) & 1) != 0; }
};

// One row for each method of proto/*.proto and of gRPC's health service.
std::span<const MethodRule> MethodTable();

// False for a method without a row.
bool MayCall(PeerRole role, std::string_view method);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_METHOD_TABLE_H_
