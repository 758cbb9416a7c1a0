#ifndef COHORT_COMMON_COLLECTIVE_COLLECTIVE_OPTIONS_H_
#define COHORT_COMMON_COLLECTIVE_COLLECTIVE_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/security.h"
#include "common/collective/peer_service.h"

namespace cohort {

class PeerTransport;

// One replica of a group, as the chief describes it.
struct CollectiveRank {
  int index = 0;            // the number of the worker
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
  Logger* log = nullptr;  // null: none
  // How long Start waits for the other ranks.
  Duration start_deadline = std::chrono::seconds(60);
  // An operation fails if it makes no progress for so long.
  Duration deadline = std::chrono::seconds(60);
  // Asked about ten times a second while Start or Wait waits, on their thread. True: they return
  // Cancelled, and the group has failed. Null: never.
  std::function<bool()> should_stop;

  // The rest is the same on all ranks; tests choose small values.
  //
  // The longest chunk. It stays in a core's cache from the socket to the sum.
  uint64_t chunk_bytes = uint64_t{512} << 10;
  // Bytes of one operation that a rank may send before it knows that the next rank has started the
  // operation.
  uint64_t early_bytes = uint64_t{1} << 20;
  // Bytes of one operation that a rank may send before the next rank has used them. More would wait
  // in the kernel's buffers until they are in no cache any more.
  uint64_t window_bytes = uint64_t{2} << 20;

  // For tests: what connects the ranks. Null: MakePeerTransport.
  std::function<std::unique_ptr<PeerTransport>()> transport;
  CollectiveTestFaults test_faults;

  int count() const { return static_cast<int>(ranks.size()); }
  const CollectiveRank& own() const { return ranks[static_cast<size_t>(rank)]; }
  // The ranks before and after this one: it receives from the first and sends to the second.
  int left() const { return (rank + count() - 1) % count(); }
  int right() const { return (rank + 1) % count(); }
};

// Counts since the start of a group. Bytes are those of elements.
struct CollectiveCounters {
  uint64_t bytes_sent = 0;    // in frames and in shared memory
  uint64_t bytes_shared = 0;  // those in shared memory
  uint64_t bytes_received = 0;
  uint64_t frames_dropped = 0;  // they did not fit, or their operation has ended
  uint64_t chunks_early = 0;    // arrived before their operation was started here
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_COLLECTIVE_OPTIONS_H_
