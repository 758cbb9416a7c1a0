#ifndef COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_
#define COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/base/clock.h"
#include "common/cluster/address.h"

namespace cohort {

// Returns the body of a page of an admin port, such as "/metrics". Waits for `timeout` at most.
// Errors: Unavailable if nothing answers; NotFound if the port has no such page; DataLoss if the
// answer is not HTTP or has more than 16 MiB.
absl::StatusOr<std::string> GetAdminPage(const Address& address, const std::string& path,
                                         Duration timeout);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_
