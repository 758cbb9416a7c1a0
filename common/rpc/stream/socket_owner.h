#ifndef COHORT_COMMON_RPC_STREAM_SOCKET_OWNER_H_
#define COHORT_COMMON_RPC_STREAM_SOCKET_OWNER_H_

#include <netinet/in.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/unique_fd.h"

namespace cohort {

// The two ends of a TCP connection, as its accepting socket sees them. IPv4 addresses that are
// mapped into IPv6 count as IPv4.
struct TcpEnds {
  struct End {
    std::array<uint8_t, 16> address = {};  // IPv4: the first four bytes
    uint16_t port = 0;
  };
  int family = AF_INET;  // or AF_INET6
  End own;
  End peer;
};

// Nullopt for a socket that is not TCP or not connected.
std::optional<TcpEnds> EndsOf(int connection);

// The peer as gRPC names it: "ipv4:10.0.0.3:4000", "ipv6:%5B::1%5D:4000".
std::string PeerName(const TcpEnds& ends);

// Finds the user who owns the other end of a TCP connection of this host. The kernel is
// asked for the peer's socket by both its addresses (sock_diag(7)); if it has no such interface,
// the tables in /proc/net are read. Nullopt if the socket is not there: it belongs to another host
// or network namespace, or its process has closed it. The kernel reports root for a socket that
// nobody holds any longer, so such an answer counts as none. Not thread-safe.
class SocketOwners {
 public:
  SocketOwners();

  std::optional<uid_t> OwnerOfPeer(const TcpEnds& ends);
  // False if this system has neither of the two ways.
  bool can_tell() const;

  // The two ways, for tests.
  //
  // `answers`: false if the kernel has no sock_diag.
  std::optional<uid_t> AskKernel(const TcpEnds& ends, bool* answers);
  static std::optional<uid_t> ReadTables(const TcpEnds& ends);

 private:
  UniqueFd netlink_;  // kept open, so that a moment without descriptors does not matter
  uint32_t sequence_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_SOCKET_OWNER_H_
