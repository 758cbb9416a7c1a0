#ifndef COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_
#define COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/security.h"
#include "common/exchange/exchange.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"

namespace cohort::v1 {
class Routes;
}

namespace cohort {

struct CodecCounters;

struct RemoteAccessOptions {
  ExchangeOptions exchange;
  std::string host_id;  // of this process: servers with the same one are reached by unix socket
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  bool own_core = false;  // TransportOptions::SetOwnCore
};

// The parameter servers as one worker reaches them: a PushPull stream to each, over a unix socket
// where both ends share a host, opened when first needed and again (with back-off) when lost. What
// is sent references the caller's memory; an Exchange returns only when gRPC has let go of it,
// whatever its outcome, so that memory may be reused.
//
// One thread, the step thread, exchanges and waits; it polls the streams itself, so an exchange has
// no thread hop. The others only leave word: Set*, Interrupt and Wake are thread-safe.
class RemoteAccess {
 public:
  explicit RemoteAccess(const RemoteAccessOptions& options);
  // Ends the streams. On the step thread, or when it has ended.
  ~RemoteAccess();

  // The variables of one program. The result must not outlive this object. Exchange fails with
  // InvalidArgument where the program does not fit the routes, and with Unavailable (FailureInfo of
  // role "ps") where a server stays away.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables);

  // From the next moment on, also for an exchange under way.
  void SetRoutes(std::shared_ptr<const v1::Routes> routes);
  void SetGeneration(uint64_t generation);
  void SetWatermark(uint64_t watermark);

  // Makes the exchange under way return Cancelled; where there is none, the next one.
  void Interrupt();

  // The step thread's wait for work: returns after Wake, at the deadline, or a little earlier.
  void Wait(TimePoint deadline);
  // Makes Wait return. Cheap when one is pending.
  void Wake();

  struct Counters {
    uint64_t exchanges = 0;
    uint64_t requests = 0;
    uint64_t resends = 0;
    uint64_t bytes_sent = 0;  // payload
    uint64_t bytes_received = 0;
    uint64_t bytes_copied = 0;       // of them, to where the step reads them
    uint64_t connections = 0;        // opened so far
    uint64_t release_polls = 0;      // polls only to get sent memory back
    uint64_t sockets_given_up = 0;   // for the address: no answer had come from them
    uint64_t early_connections = 0;  // of the opened ones, with TransportOptions::may_read_early
  };
  // Thread-safe; the fields may be of slightly different moments.
  Counters counters() const;
  // What the streams' codec does.
  const CodecCounters& codec_counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_
