#ifndef COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_
#define COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/cluster/peer_refusals.h"

namespace cohort {

// Accepts the connections that are to be looked at before gRPC gets them, on a thread of its own
// that sleeps between connections:
//
// - Unix sockets: the peer must belong to the user of this process, or be root (SO_PEERCRED).
// - TCP with certificates: the first byte tells a TLS handshake from plaintext. gRPC would
//   silently close a plaintext connection. A plaintext HTTP/2 connection goes to gRPC as such, so
//   that its
//   streams are refused with a message (AdmitPeer). Other bytes end the connection.
// - Unix sockets and plaintext TCP, if somebody takes connections that do not speak HTTP/2
//   (StreamServer::Options::take_socket). Their first byte is kSocketByte.
//
// Refused connections are counted and logged.
class ConnectionAcceptor {
 public:
  // The first byte of a connection that speaks neither TLS nor HTTP/2.
  static constexpr unsigned char kSocketByte = 'F';

  // Receives a connection; its second argument is the descriptor of the listener.
  using Take = std::function<void(UniqueFd connection, int listener)>;

  // Who gets a connection, by its first byte. Null: `other`.
  struct Takers {
    Take tls;     // a TLS handshake
    Take http2;   // plaintext HTTP/2
    Take socket;  // kSocketByte
    Take other;   // null: the connection is refused
  };

  explicit ConnectionAcceptor(PeerRefusals* refusals) : refusals_(refusals) {}
  ~ConnectionAcceptor();

  // Before Start. `path` is removed at the end. If only `other` is given, it gets connections at
  // once.
  void AddUnix(UniqueFd listener, std::string path, Takers takers);
  void AddTcp(UniqueFd listener, Takers takers);

  void Start();
  // Accepts nothing more. Idempotent.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Listener {
    UniqueFd fd;
    std::string path;  // "": TCP
    Takers takers;
  };
  // A connection whose first byte has not arrived.
  struct Silent {
    UniqueFd fd;
    const Listener* listener;
    Clock::time_point deadline;
  };

  void ThreadMain();
  void Accept(Listener* listener);
  bool HasPeerOfUser(const Listener& listener, const UniqueFd& connection) const;
  // Returns true if the connection has been passed on or closed.
  bool Sort(Silent* silent);
  int NextTimeout() const;

  PeerRefusals* const refusals_;
  std::vector<Listener> listeners_;
  UniqueFd wake_;  // an eventfd
  std::thread thread_;
  // The rest belongs to the thread.
  std::vector<Silent> silent_;
  bool no_descriptors_ = false;  // accept(2) has failed for lack of descriptors
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_
