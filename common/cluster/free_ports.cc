#include "common/cluster/free_ports.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/identity.h"

namespace cohort {
namespace {

constexpr int kLowestPort = 15'000;

bool IsFree(int port) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

// The first port of the range that the system uses for outgoing connections.
int FirstEphemeralPort() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  int first = 0;
  return file >> first ? first : 32'768;
}

}  // namespace

absl::StatusOr<std::vector<int>> ChooseFreePorts(int count) {
  const int end = std::max(FirstEphemeralPort(), kLowestPort + 2 * count);
  const int span = end - kLowestPort;
  const int start = static_cast<int>(RandomIncarnation() % static_cast<uint64_t>(span));
  std::vector<int> ports;
  for (int i = 0; i < span && static_cast<int>(ports.size()) < count; ++i) {
    const int port = kLowestPort + (start + i) % span;
    if (IsFree(port)) ports.push_back(port);
  }
  if (static_cast<int>(ports.size()) == count) return ports;
  return ResourceExhausted("only {} of {} ports are free on 127.0.0.1 from {} to {}", ports.size(),
                           count, kLowestPort, end - 1);
}

}  // namespace cohort
