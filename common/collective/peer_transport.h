#ifndef COHORT_COMMON_COLLECTIVE_PEER_TRANSPORT_H_
#define COHORT_COMMON_COLLECTIVE_PEER_TRANSPORT_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/cluster/security.h"
#include "common/collective/peer_service.h"
#include "common/rpc/stream/stream.h"

namespace cohort {

class SocketStream;

// How the thread of a group dials other ranks and waits for what they send: plain sockets,
// connections of gRPC, or the network of the simulator. It belongs to the thread of the group.
class PeerTransport {
 public:
  virtual ~PeerTransport() = default;

  virtual TimePoint Now() const = 0;
  // Handles one event of the dialed streams. Returns false if the deadline came first, true also
  // after Wake.
  virtual bool Poll(TimePoint deadline) = 0;
  // Makes Poll return soon. Thread-safe.
  virtual void Wake() = 0;

  // Prepares the connection to a rank, which is this worker. Errors: InvalidArgument (not an
  // address), FailedPrecondition (plaintext beyond loopback).
  virtual absl::Status Prepare(int rank, int worker, const std::string& address) = 0;
  // Opens a stream to a prepared rank. `handler` gets its events inside Poll, and its OnClosed in
  // any case.
  virtual std::shared_ptr<Stream> Dial(int rank, const PeerStreamName& name,
                                       StreamHandler* handler) = 0;
  // Serves a connection of another rank. Null: the transport has no SocketStreams.
  virtual std::shared_ptr<SocketStream> Accept(UniqueFd connection) { return nullptr; }
  // True if what a stream has queued is written inside Poll, false if other threads write it.
  virtual bool WritesInPoll() const { return false; }
  // Aborts the streams and returns when each handler has had its OnClosed.
  virtual void Shutdown() = 0;
};

// The transport of a process: sockets if it has no certificates, else connections of gRPC, which
// encrypt. For sockets the servers of all ranks need StreamServer::Options::take_socket.
std::unique_ptr<PeerTransport> MakePeerTransport(std::shared_ptr<const Security> security);
std::unique_ptr<PeerTransport> MakeGrpcPeerTransport(std::shared_ptr<const Security> security);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_PEER_TRANSPORT_H_
