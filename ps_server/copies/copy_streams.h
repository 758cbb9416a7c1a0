#ifndef COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_
#define COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream_client.h"
#include "ps_server/copies/copies.h"

namespace cohort {

inline constexpr char kCopyMethod[] = "/cohort.v1.ParameterServer/Copy";

// Streams of gRPC to the servers that keep copies, which a thread of its own polls. Thread-safe.
class CopyStreams : public CopyTransport {
 public:
  // `host_id`: this host. A server with the same one is reached through its unix socket.
  CopyStreams(StreamClient::Options options, std::string host_id);
  ~CopyStreams() override;

  // `copies` hears of streams until Stop. To be called before the first Open, which starts the
  // thread.
  void SetCopies(Copies* copies);
  // After the return, nobody is called.
  void Stop();

  void Open(uint64_t stream, const v1::PsRoute& to) override;
  void Send(uint64_t stream, const std::shared_ptr<const CopyLogEntry>& entry) override;
  void Close(uint64_t stream) override;

 private:
  class Link;

  std::shared_ptr<Link> Find(uint64_t stream) const;

  const StreamClient::Options options_;
  const std::string host_id_;
  CodecCounters counters_;
  CompletionLoop loop_;
  mutable Mutex mu_;
  Copies* copies_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool started_ ABSL_GUARDED_BY(mu_) = false;  // the thread
  std::map<uint64_t, std::shared_ptr<Link>> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPY_STREAMS_H_
