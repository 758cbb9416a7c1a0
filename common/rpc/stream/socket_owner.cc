#include "common/rpc/stream/socket_owner.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

namespace cohort {
namespace {

constexpr uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};  // ::ffff:0:0/96

std::optional<TcpEnds::End> EndOf(const sockaddr_storage& name, int* family) {
  TcpEnds::End end;
  *family = name.ss_family;
  if (name.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(name);
    std::memcpy(end.address.data(), &ipv4.sin_addr, 4);
    end.port = ntohs(ipv4.sin_port);
    return end;
  }
  if (name.ss_family != AF_INET6) return std::nullopt;
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(name);
  const uint8_t* const bytes = ipv6.sin6_addr.s6_addr;
  end.port = ntohs(ipv6.sin6_port);
  if (std::equal(kMapped, kMapped + 12, bytes)) {
    *family = AF_INET;
    std::memcpy(end.address.data(), bytes + 12, 4);
  } else {
    std::memcpy(end.address.data(), bytes, 16);
  }
  return end;
}

// "0100007F:B62B": an end in /proc/net/tcp and tcp6, whose words have the order of this machine.
std::string InTable(const uint8_t* address, size_t bytes, uint16_t port) {
  std::string text;
  for (size_t at = 0; at < bytes; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, address + at, 4);
    text += fmt::format("{:08X}", word);
  }
  return fmt::format("{}:{:04X}", text, port);
}

std::string InTable(const TcpEnds::End& end, int family, bool mapped) {
  if (family == AF_INET6) return InTable(end.address.data(), 16, end.port);
  if (!mapped) return InTable(end.address.data(), 4, end.port);
  std::array<uint8_t, 16> address;
  std::copy_n(kMapped, 12, address.begin());
  std::copy_n(end.address.begin(), 4, address.begin() + 12);
  return InTable(address.data(), 16, end.port);
}

// Looks for the socket whose own end is the first and whose peer is the second.
std::optional<uid_t> ReadTable(const char* path, const std::string& first,
                               const std::string& second) {
  std::ifstream table(path);
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream in(line);
    std::string number, own, peer, state, queues, timer, retransmits, timeout;
    uid_t uid = 0;
    uint64_t inode = 0;
    in >> number >> own >> peer >> state >> queues >> timer >> retransmits >> uid >> timeout >>
        inode;
    if (in && own == first && peer == second && inode != 0) return uid;
  }
  return std::nullopt;
}

struct DiagRequest {
  nlmsghdr header = {};
  inet_diag_req_v2 body = {};
};

void SetEnd(const TcpEnds::End& end, __be16* port, __be32* address) {
  *port = htons(end.port);
  std::memcpy(address, end.address.data(), end.address.size());
}

}  // namespace

std::optional<TcpEnds> EndsOf(int connection) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  if (getsockname(connection, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return std::nullopt;
  }
  TcpEnds ends;
  const auto own_end = EndOf(own, &ends.family);
  const auto peer_end = EndOf(peer, &ends.family);
  if (!own_end.has_value() || !peer_end.has_value()) return std::nullopt;
  ends.own = *own_end;
  ends.peer = *peer_end;
  return ends;
}

std::string PeerName(const TcpEnds& ends) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(ends.family, ends.peer.address.data(), text, sizeof(text));
  return ends.family == AF_INET ? fmt::format("ipv4:{}:{}", text, ends.peer.port)
                                : fmt::format("ipv6:%5B{}%5D:{}", text, ends.peer.port);
}

SocketOwners::SocketOwners()
    : netlink_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {}

std::optional<uid_t> SocketOwners::OwnerOfPeer(const TcpEnds& ends) {
  bool answers = false;
  const std::optional<uid_t> owner = AskKernel(ends, &answers);
  return answers ? owner : ReadTables(ends);
}

bool SocketOwners::can_tell() const { return netlink_.ok() || access("/proc/net/tcp", R_OK) == 0; }

// The kernel answers within the call of send.
std::optional<uid_t> SocketOwners::AskKernel(const TcpEnds& ends, bool* answers) {
  *answers = false;
  DiagRequest request;
  request.header = {.nlmsg_len = sizeof(request),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = ++sequence_,
                    .nlmsg_pid = 0};
  request.body.sdiag_family = static_cast<__u8>(ends.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0u;
  inet_diag_sockid& id = request.body.id;
  SetEnd(ends.peer, &id.idiag_sport, id.idiag_src);
  SetEnd(ends.own, &id.idiag_dport, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (send(netlink_.get(), &request, sizeof(request), 0) != sizeof(request)) return std::nullopt;
  alignas(nlmsghdr) std::array<char, 4096> buffer;
  const ssize_t got = recv(netlink_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  const auto* const header = reinterpret_cast<const nlmsghdr*>(buffer.data());
  if (got < static_cast<ssize_t>(NLMSG_HDRLEN) || header->nlmsg_seq != sequence_) {
    return std::nullopt;
  }
  if (header->nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error = {};
    if (got >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(error)))) {
      std::memcpy(&error, NLMSG_DATA(header), sizeof(error));
    }
    *answers = error.error == -ENOENT;  // there is no such socket
    return std::nullopt;
  }
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
      got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) {
    return std::nullopt;
  }
  inet_diag_msg found = {};
  std::memcpy(&found, NLMSG_DATA(header), sizeof(found));
  *answers = true;
  // Without a connection between the two, the kernel finds a listener of that port.
  const bool connected = found.idiag_state != TCP_LISTEN &&
                         found.id.idiag_sport == id.idiag_sport &&
                         found.id.idiag_dport == id.idiag_dport;
  if (!connected || found.idiag_inode == 0) return std::nullopt;
  return found.idiag_uid;
}

std::optional<uid_t> SocketOwners::ReadTables(const TcpEnds& ends) {
  const auto read = [&ends](const char* path, bool mapped) {
    return ReadTable(path, InTable(ends.peer, ends.family, mapped),
                     InTable(ends.own, ends.family, mapped));
  };
  if (ends.family == AF_INET6) return read("/proc/net/tcp6", false);
  const std::optional<uid_t> owner = read("/proc/net/tcp", false);
  return owner.has_value() ? owner : read("/proc/net/tcp6", /*mapped=*/true);
}

}  // namespace cohort
