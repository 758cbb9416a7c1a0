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

// Accepts the connections that are to be looked at before gRPC gets them, on a thread of its own that
// sleeps between connections:
//
// - Unix sockets: the peer must belong to the user of this process, or be root (SO_PEERCRED).
// - TCP with certificates: the first byte tells a TLS handshake from plaintext. gRPC would close a
//   plaintext connection without a word. A plaintext HTTP/2 connection goes to gRPC as such, so that its
//   streams are refused with a message (AdmitPeer). Other bytes end the connection.
//
// Refused connections are counted and logged.
class ConnectionAcceptor {
 public:
  // Receives a connection; its second argument is the descriptor of the listener.
  using Take = std::function<void(UniqueFd connection, int listener)>;

  explicit ConnectionAcceptor(PeerRefusals* refusals) : refusals_(refusals) {}
  ~ConnectionAcceptor();

  // Before Start. `path` is removed at the end.
  void AddUnix(UniqueFd listener, std::string path, Take take);
  void AddTls(UniqueFd listener, Take take_tls, Take take_plaintext);

  void Start();
  // Accepts nothing more. Idempotent.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Listener {
    UniqueFd fd;
    std::string path;  // "": TCP
    Take take;
    Take take_plaintext;
  };
  // A connection whose first byte has not arrived.
  struct Silent {
    UniqueFd fd;
    const Listener* listener;
    Clock::time_point deadline;
  };

  void ThreadMain();
  void Accept(Listener* listener);
  void CheckUser(Listener* listener, UniqueFd connection);
  // Returns true if the connection has been passed on or closed.
  bool Sort(Silent* silent);
  int NextTimeout() const;

  PeerRefusals* const refusals_;
  std::vector<Listener> listeners_;
  UniqueFd wake_;  // an eventfd
  std::thread thread_;
  // The rest belongs to the thread.
  std::vector<Silent> silent_;
  bool no_descriptors_ = false;  // accept(2) has failed for want of descriptors
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CONNECTION_ACCEPTOR_H_
