#ifndef COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_
#define COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream_client.h"
#include "ps_server/copies/copies.h"

namespace cohort {

inline constexpr char kCopyMethod[] = "/cohort.v1.ParameterServer/Copy";

// Streams of gRPC to the servers that keep copies. Threads that serve requests poll them: the one
// that has pushed finds the acknowledgement when it polls again, and no other one has to wake.
// Thread-safe.
class CopyStreams : public CopyTransport {
 public:
  // `host_id`: this host. A server with the same one is reached through its unix socket.
  CopyStreams(std::shared_ptr<const Security> security, std::string host_id);
  ~CopyStreams() override;

  // Before it, nothing is opened. `copies` hears of streams until Stop. `loops`: those of this
  // server, which poll; they outlive Stop.
  void Start(Copies* copies, std::vector<CompletionLoop*> loops);
  // After the return, nobody is called, except by handlers that run now.
  void Stop();

  void Open(uint64_t stream, const v1::PsRoute& to) override;
  void Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) override;
  void FlushSoon(uint64_t stream) override;
  void Close(uint64_t stream) override;

 private:
  class Link;

  Copies* copies() const;
  std::shared_ptr<Link> Find(uint64_t stream) const;

  const StreamClient::Options options_;
  const std::string host_id_;
  CodecCounters counters_;
  mutable Mutex mu_;
  Copies* copies_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::vector<CompletionLoop*> loops_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<Link>> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_
