#ifndef COHORT_COMMON_CLUSTER_ADDRESS_H_
#define COHORT_COMMON_CLUSTER_ADDRESS_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cohort {

// host:port. The host is a name, an IPv4 or an IPv6 literal (kept without brackets).
struct Address {
  std::string host;
  int port = 0;

  // "host3:2222", "[::1]:2222": what gRPC takes.
  std::string ToString() const;
  bool operator==(const Address&) const = default;
};

// Reads "host:port" with a port of 1 to 65535. Errors: InvalidArgument that says what is wrong and
// how it should look (the caller says where it stood).
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The address to listen on. `flag` is --bind: "HOST:PORT", "HOST" (the advertised port) or ":PORT"
// (all interfaces); port 0 lets the system choose. Without a flag: the advertised address where it
// is loopback, else its port on all interfaces, for the advertised name may be that of a proxy or
// be known to others only. Errors: InvalidArgument naming --bind.
absl::StatusOr<Address> BindAddress(std::string_view flag, const Address& advertised);

// "the host "x" is not known here (why)"; "" where the resolver knows it. May take seconds.
std::string HostError(const std::string& host);

// Whether the host names loopback whatever the resolver says: "localhost", 127.0.0.0/8, ::1.
bool IsLoopback(std::string_view host);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_ADDRESS_H_
