#ifndef COHORT_COMMON_RPC_STREAM_H_
#define COHORT_COMMON_RPC_STREAM_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/rpc/frame.h"

namespace cohort {

// One end of a long-lived bidirectional stream of frames; the same class at client and server.
//
// Send never blocks: frames queue and one write is in flight at a time. The handler's calls come one
// after another, on the thread that polls the stream's completion queue (CompletionLoop); a handler
// does small work right there.
class Stream {
 public:
  virtual ~Stream() = default;
  // Queues a frame. Ignored after Close or after the peer is gone. Thread-safe.
  virtual void Send(Frame frame) = 0;
  // Bytes queued and not yet given to the wire. Thread-safe.
  virtual size_t queued_bytes() const = 0;
  // Flushes what is queued, then ends the stream with this status (OK = a clean close). Thread-safe.
  virtual void Close(absl::Status status) = 0;
  // Ends at once, whatever is queued. Thread-safe.
  virtual void Abort() = 0;
  // "ipv4:127.0.0.1:4711", for logs.
  virtual std::string peer() const = 0;
};

class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  virtual void OnFrame(Frame frame) = 0;
  // The last call. OK where the peer closed cleanly; else why (Unavailable: the connection is lost).
  virtual void OnClosed(const absl::Status& status) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_H_
