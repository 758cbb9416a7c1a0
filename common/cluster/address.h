#ifndef COHORT_COMMON_CLUSTER_ADDRESS_H_
#define COHORT_COMMON_CLUSTER_ADDRESS_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cohort {

// host:port. The host is a name, an IPv4 or an IPv6 literal (stored without brackets).
struct Address {
  std::string host;
  int port = 0;

  // "host3:2222", "[::1]:2222": the form that gRPC takes.
  std::string ToString() const;
  bool operator==(const Address&) const = default;
};

// Reads "host:port" with a port from 1 to 65535. Errors: InvalidArgument that says what is wrong
// and shows the expected form. The caller adds the place of the text.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The address to listen on. `flag` is --bind: "HOST:PORT", "HOST" (with the advertised port) or
// ":PORT" (all interfaces). Port 0 lets the system choose. Without the flag it is the advertised
// address if that is loopback, else the advertised port on all interfaces: the advertised name may
// belong to a proxy or be unknown on this host. Errors: InvalidArgument that names --bind.
absl::StatusOr<Address> BindAddress(std::string_view flag, const Address& advertised);

// 'the host "x" cannot be resolved (why)', or "" if the resolver knows it. May take seconds.
std::string HostError(const std::string& host);

// True if the host is loopback by its name alone: "localhost", 127.0.0.0/8, ::1.
bool IsLoopback(std::string_view host);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ADDRESS_H_
