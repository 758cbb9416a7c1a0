#ifndef COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_
#define COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/security.h"
#include "common/collective/collective.h"
#include "common/collective/peer_service.h"

namespace cohort {

class PeerTransport;

// One replica of a group, as the chief describes it.
struct CollectiveRank {
  std::string role = "worker";
  int index = 0;
  std::string address;      // "host:port" of its server
  std::string unix_socket;  // path; "": none
  std::string host_id;      // HostId()
  uint64_t incarnation = 0;

  // "worker:1 (10.0.0.3:4000)".
  std::string ToString() const;
};

// Bugs that tests plant, to prove that they find them. No flag reaches them.
struct CollectiveTestFaults {
  bool takes_any_epoch = false;       // streams and frames of other epochs are used
  bool drops_early_credit = false;    // credit that comes before the operation is started here
  bool names_its_sender = false;      // the rank whose chunks are missing, without asking anyone
  bool returns_lent_buffers = false;  // Wait does not wait until nobody reads the buffers
};

struct CollectiveGroupOptions {
  std::vector<CollectiveRank> ranks;
  int rank = 0;  // the rank of this process
  GroupId group;
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  const Clock* clock = nullptr;  // null: the machine's
  Logger* log = nullptr;         // null: none
  // How long Start waits for the other ranks.
  Duration start_deadline = std::chrono::seconds(60);
  // Asked about ten times a second while Start or Wait waits, on their thread. True: they return
  // Cancelled, and the group has failed. Null: never.
  std::function<bool()> should_stop;
  bool own_core = false;      // TransportOptions::SetOwnCore
  bool shared_memory = true;  // between ranks of one host that reach each other by unix socket

  // The rest is the same on all ranks; tests choose small values.
  //
  // The longest chunk. It stays in a core's cache from the socket to the sum.
  uint64_t chunk_bytes = uint64_t{512} << 10;
  // Bytes of one operation that a rank may send to another one before it knows that the other one has
  // started the operation.
  uint64_t early_bytes = uint64_t{1} << 20;
  // Bytes of one operation that a rank may send to another one before that one has used them. More
  // would wait in the kernel's buffers until they are in no cache any more.
  uint64_t window_bytes = uint64_t{2} << 20;

  // For the simulator: what connects the ranks. Null: MakePeerTransport.
  std::function<std::unique_ptr<PeerTransport>()> transport;
  CollectiveTestFaults test_faults;
};

// A group of ranks in several processes. Every rank has a stream to every other one (the protocol is
// in proto/collective.proto). Between processes of one host chunks lie in shared memory, and only
// control frames take the unix socket.
//
// The thread that calls Start and Wait polls the streams itself, so a chunk that arrives is summed on
// the thread that waits for it. Sums are read straight from the received slices. Chunks are sent as
// references to the caller's buffers, and Wait returns when nobody reads them any more. Another rank may
// have at most early_bytes or window_bytes of an operation under way to this one.
//
// A rank reads what others offer and writes only its own memory: its buffers, and its shared segment.
// So a process that was stopped and wakes cannot write into a new group. Its streams are closed, its
// frames carry an old epoch, and nobody maps its old segment.
//
// A new epoch: destroy the group, and start another one with a greater GroupId. Start returns when
// every member has accepted the streams of all others. A member accepts them only after it has closed
// its old group, so all members have closed their old streams when Start returns.
class CollectiveGroup final : public Collective {
 public:
  // Connects all ranks. `service` must serve this process's address. Errors: InvalidArgument,
  // FailedPrecondition (an old epoch; plaintext beyond loopback), DeadlineExceeded with the
  // FailureInfo of the first missing rank (the message names all), Unavailable if a rank has left
  // again.
  static absl::StatusOr<std::unique_ptr<CollectiveGroup>> Start(
      const CollectiveGroupOptions& options, PeerService* service);
  // Leaves the group: sends what is queued, closes all streams, and returns when they have ended.
  ~CollectiveGroup() override;

  int rank() const override;
  int ranks() const override;
  absl::StatusOr<Ticket> Start(const CollectiveCall& call) override;
  absl::Status Wait(Ticket ticket) override;
  void Poll() override;
  void Abandon(uint64_t step, uint64_t step_try) override;
  CollectiveCounters counters() const override;

  // True if chunks to this rank lie in shared memory.
  bool SharesMemoryWith(int rank) const;
  // For tests: what the chunks of an operation in flight carry.
  uint32_t SignatureOf(Ticket ticket) const;

 private:
  class Impl;
  explicit CollectiveGroup(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_COLLECTIVE_GROUP_H_
