#ifndef COHORT_COMMON_RPC_STREAM_SOCKET_LOOP_H_
#define COHORT_COMMON_RPC_STREAM_SOCKET_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"
#include "common/tensor/buffer.h"

namespace cohort {

class SocketStream;

// The sockets of one thread (SocketStream), which polls them. Everything that the loop runs
// therefore runs one after another. Only Wake may be called from another thread.
class SocketLoop {
 public:
  SocketLoop();
  // Calls Shutdown.
  ~SocketLoop();
  SocketLoop(const SocketLoop&) = delete;
  SocketLoop& operator=(const SocketLoop&) = delete;

  // Handles one event. Returns false if `deadline` came first, true also after Wake. Never call it
  // from a handler.
  bool PollOnce(TimePoint deadline);
  // Makes the polling thread return from its poll soon. Thread-safe.
  void Wake();
  // Aborts all streams. Each handler has had its OnClosed when this returns. Idempotent.
  void Shutdown();

 private:
  friend class SocketStream;

  // Keeps a stream until its end was delivered.
  void Add(std::shared_ptr<SocketStream> stream);
  // Waits for `events` of epoll(7) on a socket of the stream. `known`: the loop has it already.
  void Watch(SocketStream* stream, int fd, uint32_t events, bool known);
  // The stream has ended: its handler gets OnClosed in the next poll.
  void EndLater(SocketStream* stream) { ended_.push_back(stream); }
  bool DeliverEnds();
  BufferPool* pool() { return pool_.get(); }

  const UniqueFd epoll_;
  const UniqueFd wake_;  // an eventfd
  const BufferPool::Handle pool_;
  std::map<SocketStream*, std::shared_ptr<SocketStream>> streams_;
  std::vector<SocketStream*> ended_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_SOCKET_LOOP_H_
