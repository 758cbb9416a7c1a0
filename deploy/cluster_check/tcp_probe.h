#ifndef COHORT_DEPLOY_CLUSTER_CHECK_TCP_PROBE_H_
#define COHORT_DEPLOY_CLUSTER_CHECK_TCP_PROBE_H_

#include <chrono>
#include <string>

#include "common/cluster/address.h"
#include "proto/cluster_check.pb.h"

namespace cohort {

// The outcome of an attempt to reach an address, and the error if it failed.
struct Reach {
  v1::ReachOutcome outcome = v1::NOT_TRIED;
  std::string detail;
};

// Connects to an address by TCP, and closes the connection. REACHED: something listens there. The
// kind of a failure is the error code of connect(), so it tells a firewall that drops packets
// (TIMED_OUT) from a port without a listener (REFUSED). `limit` is for each address of the host.
Reach ProbeTcp(const Address& address, std::chrono::milliseconds limit);

}  // namespace cohort

#endif  // COHORT_DEPLOY_CLUSTER_CHECK_TCP_PROBE_H_
