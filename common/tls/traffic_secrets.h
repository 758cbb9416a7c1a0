#ifndef COHORT_COMMON_TLS_TRAFFIC_SECRETS_H_
#define COHORT_COMMON_TLS_TRAFFIC_SECRETS_H_

#include <optional>

#include "common/tls/record_layer.h"

namespace cohort {

// The secrets of one connection, as one end sees them.
struct ConnectionSecrets {
  TrafficSecret sends;
  TrafficSecret receives;
};

// From now on OpenSSL keeps the traffic secrets of each TLS 1.3 connection of this process until
// the connection is freed. Its new contexts prefer AES-128-GCM, unless the configuration of OpenSSL
// names other suites. Its new connections send no session tickets, so that the first record after
// the handshake has the number 0. Thread-safe and idempotent.
void KeepTrafficSecrets();

// The secrets of a connection (an SSL*) whose handshake has ended. nullopt if `ssl` is not such a
// connection, or uses an older TLS or another kind of cipher. Thread-safe.
std::optional<ConnectionSecrets> TrafficSecretsOf(const void* ssl);

}  // namespace cohort

#endif  // COHORT_COMMON_TLS_TRAFFIC_SECRETS_H_
