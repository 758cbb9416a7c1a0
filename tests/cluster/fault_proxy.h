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

// Which way bytes go through a proxy: a request goes to the server, its answer to the client.
enum class Way { kToServer, kToClient };
// Which connections a fault is for. A connection shows what it is by the path of its first call;
// until then it is of neither kind.
enum class Traffic {
  kAll,
  kControl,  // the chief's stream
  kData,     // PushPull: a worker's pushes and pulls
};

// What happens to the bytes that go one way.
struct Fault {
  enum class Kind {
    kHold,   // they wait in the proxy until Heal
    kDrop,   // they vanish: the stream is broken from there on, and only its ends can find out
    kCut,    // the connection is reset in both ways; a new one is served
    kDelay,  // each waits for `delay`
  };
  Kind kind = Kind::kHold;
  Way way = Way::kToServer;
  Traffic traffic = Traffic::kAll;
  // Only after so many more messages (HTTP/2 data frames: of small messages one each), or bytes
  // where that is 0, have gone that way on one connection. 0: from now on.
  uint64_t after_messages = 0;
  uint64_t after_bytes = 0;
  std::chrono::milliseconds delay{0};
};

// A TCP proxy in user space between the clients of one server and the server, with faults on
// command. One thread; every method is thread-safe. What it waits for, it waits for by condition.
class FaultProxy {
 public:
  struct Counters {
    uint64_t connections = 0;  // of this kind of traffic, ever
    uint64_t cut = 0;          // connections that a fault or Cut or Partition has reset
    uint64_t messages = 0;     // that went through
    uint64_t bytes = 0;
    uint64_t held = 0;     // bytes that wait at a fault now
    uint64_t dropped = 0;  // bytes
    uint64_t delayed = 0;  // bytes that had to wait at a kDelay
  };

  // Listens on a free port of loopback; clients are led to `target_port`.
  static absl::StatusOr<std::unique_ptr<FaultProxy>> Start(int target_port);
  ~FaultProxy();

  int port() const { return port_; }

  // One fault per way and kind of traffic; a later one replaces it. A kCut that has happened is
  // gone.
  void Inject(const Fault& fault);
  // No fault and no partition from now on: what was held goes on its way.
  void Heal();
  // Resets the connections that there are; new ones are served.
  void Cut(Traffic traffic);
  // Resets them and every new one, until Heal.
  void Partition(Traffic traffic);

  Counters counters(Traffic traffic, Way way);
  // Waits until it holds. False: the limit, scaled, has passed.
  bool WaitUntil(Traffic traffic, Way way, const std::function<bool(const Counters&)>& done,
                 std::chrono::milliseconds limit);
  // A message waits at a kHold.
  bool WaitHeld(Traffic traffic, Way way, std::chrono::milliseconds limit);

 private:
  class Pipe;
  struct Connection;

  FaultProxy(int target_port, UniqueFd listen_fd, UniqueFd wake_fd, int port);
  void Run();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves what can be moved. False: the connection is over.
  bool Serve(Connection* connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool ServeWay(Connection* connection, Way way) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Fault* FaultOf(const Connection& connection, Way way) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
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
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mu_);
  std::optional<Traffic> partition_ ABSL_GUARDED_BY(mu_);
  std::list<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  // Of connections that are over, by traffic and way.
  std::map<std::pair<Traffic, Way>, Counters> past_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_TESTS_CLUSTER_FAULT_PROXY_H_
