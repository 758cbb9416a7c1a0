#ifndef COHORT_TESTS_CLUSTER_FAULT_PROXY_H_
#define COHORT_TESTS_CLUSTER_FAULT_PROXY_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

struct pollfd;

namespace cohort {

// The direction of bytes through a proxy: requests to the server, answers to the client.
enum class Way { kToServer, kToClient };
// The connections that a fault affects. The path of its first call shows the kind of a connection;
// until then it has neither kind.
enum class Traffic {
  kAll,
  kControl,  // the chief's stream
  kData,     // PushPull: a worker's pushes and pulls; Collective: between the ranks of a ring
};

// What happens to the bytes of one direction.
struct Fault {
  enum class Kind {
    kHold,   // they wait in the proxy until Heal
    kDrop,   // they vanish, and only the two ends of the stream can notice that
    kCut,    // the connection is reset in both directions; a new one is served
    kDelay,  // each waits for `delay`
    kRate,   // `bytes_per_second` pass, which the connections share fairly
  };
  Kind kind = Kind::kHold;
  Way way = Way::kToServer;
  Traffic traffic = Traffic::kAll;
  // The fault starts after this number of further messages of one connection (HTTP/2 data frames:
  // one per small message), or bytes if that is 0. 0: it starts now.
  uint64_t after_messages = 0;
  uint64_t after_bytes = 0;
  std::chrono::milliseconds delay{0};
  uint64_t bytes_per_second = 0;
};

// A TCP proxy in user space between one server and its clients, with faults on command. One thread;
// every method is thread-safe. It never polls for a condition. It cannot deliver a message twice:
// HTTP/2 has no place for the same bytes again. The simulator does that
// (tests/simulator/network.h).
class FaultProxy {
 public:
  struct Counters {
    uint64_t connections = 0;  // all connections of this kind so far
    uint64_t cut = 0;          // connections that a fault, Cut or Partition has reset
    uint64_t messages = 0;     // forwarded messages
    uint64_t bytes = 0;
    uint64_t held = 0;     // bytes that a fault holds now
    uint64_t dropped = 0;  // bytes
    uint64_t delayed = 0;  // bytes that a kDelay has delayed
  };

  // Listens on a free port of loopback and forwards clients to `target_port`.
  static absl::StatusOr<std::unique_ptr<FaultProxy>> Start(int target_port);
  ~FaultProxy();

  int port() const { return port_; }

  // One fault per direction and kind of traffic; a later one replaces it. A kCut happens once.
  void Inject(const Fault& fault);
  // Ends every fault and partition, and forwards the bytes that were held.
  void Heal();
  // Resets all open connections; new ones are served.
  void Cut(Traffic traffic);
  // Resets all open connections and every new one, until Heal.
  void Partition(Traffic traffic);

  Counters counters(Traffic traffic, Way way);
  // Waits until the condition holds. False: the limit, scaled, has passed.
  bool WaitUntil(Traffic traffic, Way way, const std::function<bool(const Counters&)>& done,
                 std::chrono::milliseconds limit);
  // Waits until a kHold holds a message.
  bool WaitHeld(Traffic traffic, Way way, std::chrono::milliseconds limit);

 private:
  class Pipe;
  struct Connection;
  struct Injected;

  FaultProxy(int target_port, UniqueFd listen_fd, UniqueFd wake_fd, int port);
  void Run();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forwards the bytes that can be forwarded. False: the connection is closed.
  bool Serve(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ServeWay(Connection* connection, Way way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Injected* FaultOf(const Connection& connection, Way way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPartitioned(const Connection& connection) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Reset(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Bury(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::chrono::steady_clock::time_point Sweep(std::vector<pollfd>* fds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Counters Count(Traffic traffic, Way way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Wake();

  const int target_port_;
  const UniqueFd listen_fd_;
  const UniqueFd wake_fd_;
  const int port_;

  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Injected> faults_ ABSL_GUARDED_BY(mu_);
  std::optional<Traffic> partition_ ABSL_GUARDED_BY(mu_);
  std::list<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  // Totals of closed connections, by kind of traffic and direction.
  std::map<std::pair<Traffic, Way>, Counters> past_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_FAULT_PROXY_H_
