#ifndef COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_
#define COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/security.h"
#include "common/exchange/exchange.h"
#include "common/exchange/exchange_thread.h"
#include "common/exchange/link_waits.h"
#include "common/exchange/local_server.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/tensor/buffer.h"

namespace cohort {

struct CodecCounters;

struct RemoteAccessOptions {
  ExchangeOptions exchange;
  std::string host_id;  // this process's; servers with the same one are reached by unix socket
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  std::shared_ptr<const LocalServers> local;  // reached by calls; may be null
  Logger* log = nullptr;                      // may be null; outlives the access
  // Gets the refusal of a server that asks for another secret, on the step thread, if no server has
  // accepted this process's secret before: to dial again does not help. May be null.
  std::function<void(const absl::Status&)> on_secret_refused;
};

// Connects one worker to the parameter servers: a PushPull stream to each, over a unix socket if
// both ends share a host. A server of this process is called directly (LocalConnection). A stream
// is opened when it is first needed, and reopened (with back-off) when it is lost. Sent messages
// reference the caller's memory. An Exchange returns only when gRPC has released this memory,
// whatever the outcome, so the caller may reuse it.
//
// One thread, the step thread, exchanges and waits; it polls the streams itself, so an exchange has
// no thread hop. Other threads call only Wake, and what ExchangeThread allows them.
class RemoteAccess {
 public:
  explicit RemoteAccess(const RemoteAccessOptions& options);
  // Ends the streams. Called on the step thread, or after it has ended.
  ~RemoteAccess();

  // Access to the variables of one program. The result must not outlive this object. Exchange fails
  // with InvalidArgument if the program does not fit the routes, and with Unavailable (FailureInfo
  // of role "ps") if a server stays unreachable.
  std::unique_ptr<VariableAccess> ForProgram(std::span<const VariableDecl> variables);

  // Returns memory for values that are pushed, which servers of this host read where it is; empty
  // if there is none, or few bytes. It may outlive this object. Called on the step thread.
  BufferRef AllocatePushAreas(size_t bytes);

  // The thread, to which other threads give routes, the generation and the watermark. Valid as long
  // as this object.
  ExchangeThread* thread();

  // How often the step thread has waited for the network or for work. Thread-safe.
  uint64_t turns() const;
  // Waits for work on the step thread. Returns after Wake, at the deadline, or a little earlier.
  void Wait(TimePoint deadline);
  // Makes Wait return. Cheap if an earlier Wake is still pending.
  void Wake();

  struct Counters {
    uint64_t exchanges = 0;
    uint64_t requests = 0;
    uint64_t resends = 0;
    uint64_t bytes_sent = 0;  // payload
    uint64_t bytes_received = 0;
    uint64_t bytes_copied = 0;      // payload that was copied to where the step reads it
    uint64_t bytes_lent = 0;        // payload that the step reads where the server has it
    uint64_t bytes_placed = 0;      // payload that was copied to memory that both ends share
    uint64_t bytes_in_place = 0;    // payload that a server reads where the step wrote it
    uint64_t areas_renewed = 0;     // push areas that a server may still read after their exchange
    uint64_t connections = 0;       // opened so far
    uint64_t release_polls = 0;     // polls whose only purpose is to get sent memory back
    uint64_t sockets_given_up = 0;  // replaced by the TCP address: no answer had come from them
  };
  // Thread-safe; the fields may be read at slightly different moments.
  Counters counters() const;
  // How long servers of other processes have let the step thread wait since the last call.
  // Thread-safe.
  std::vector<LinkWait> TakeWaits();
  // The counters of the streams' codec.
  const CodecCounters& codec_counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_H_
