#ifndef COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_
#define COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/cluster/peer_refusals.h"
#include "common/rpc/stream/pending_peers.h"
#include "common/rpc/stream/socket_owner.h"

namespace cohort {

// Accepts all connections of a server, on a thread of its own that sleeps between connections, and
// looks at them before gRPC gets them. A moment without descriptors only delays connections.
//
//   unix socket      The peer must belong to the user of this process, or be root (SO_PEERCRED).
//   TCP, plaintext   The same on loopback: SocketOwners names the user. Beyond loopback, everybody.
//   TCP, TLS         The first bytes must be a TLS handshake, and gRPC gets the connection when the
//                    first record is there. A plaintext HTTP/2 client learns that it needs TLS,
//                    by bytes that are the same for all. Other bytes end the connection.
//
// A connection that is silent, or does not complete its first record, is closed after 10 s. gRPC
// gets a limited number of connections of peers that are not known yet (PendingPeers).
//
// On plaintext sockets, somebody else may take connections that do not speak HTTP/2
// (StreamServer::Options::take_socket). Their first byte is kSocketByte.
//
// Refused connections are counted and logged.
class ConnectionAcceptor {
 public:
  // The first byte of a connection that speaks neither TLS nor HTTP/2.
  static constexpr unsigned char kSocketByte = 'F';

  // Receives a connection; its second argument is the descriptor of the listener.
  using Take = std::function<void(UniqueFd connection, int listener)>;

  // Who gets a connection, by its first byte.
  struct Takers {
    Take tls;     // a TLS handshake; if there is one, it alone gets connections
    Take socket;  // kSocketByte; null: `other`
    Take other;
  };

  // Whose TCP connections are accepted.
  enum class Peers {
    kAll,
    kOwnUser,         // those of this user and of root, on this host
    kOwnUserIfKnown,  // also those whose user the kernel does not know
  };

  ConnectionAcceptor(PeerRefusals* refusals, PendingPeers* pending)
      : refusals_(refusals), pending_(pending) {}
  ~ConnectionAcceptor();

  // Before Start. `path` is removed at the end. If only `other` is given, it gets connections at
  // once.
  void AddUnix(UniqueFd listener, std::string path, Takers takers);
  void AddTcp(UniqueFd listener, Peers peers, Takers takers);

  void Start();
  // Accepts nothing more. Idempotent.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Listener {
    UniqueFd fd;
    std::string path;  // "": TCP
    Peers peers = Peers::kAll;
    Takers takers;
  };
  // A connection whose first bytes have not arrived, or one that is being refused: what the peer
  // has sent is read, because closing would discard the answer otherwise.
  struct Waiting {
    UniqueFd fd;
    const Listener* listener;
    Clock::time_point deadline;
    size_t awaited = 0;  // bytes until poll(2) reports it; 0: one
    bool refused = false;
    size_t drained = 0;  // bytes that were read since it was refused
  };

  void ThreadMain();
  void Accept(Listener* listener);
  bool Admits(const Listener& listener, const UniqueFd& connection);
  bool RefuseUser(const std::string& address, const std::string& identity, absl::Status why) const;
  void HandOver(const Listener& listener, const Take& take, UniqueFd connection);
  // These return true if the connection has been passed on or closed.
  bool Sort(Waiting* waiting);
  bool SortTls(Waiting* waiting, unsigned char first);
  bool RefusePlaintext(Waiting* waiting, bool http2) const;
  static bool Drain(Waiting* waiting);
  int NextTimeout() const;

  PeerRefusals* const refusals_;
  PendingPeers* const pending_;
  std::vector<Listener> listeners_;
  UniqueFd wake_;  // an eventfd
  std::thread thread_;
  // The rest belongs to the thread.
  SocketOwners owners_;
  std::vector<Waiting> waiting_;
  bool no_descriptors_ = false;  // accept(2) has failed for lack of descriptors
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_
