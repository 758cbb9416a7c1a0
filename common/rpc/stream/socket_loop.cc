#include "common/rpc/stream/socket_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "common/rpc/stream/socket_stream.h"

namespace cohort {
namespace {

// Received frames of several peers that wait for each other.
constexpr size_t kIdleBytes = size_t{32} << 20;

// Rounded up, so that the deadline has come when the wait ends. At most a minute.
int MillisUntil(TimePoint deadline) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (deadline <= now) return 0;
  const Duration most = std::chrono::minutes(1);
  const auto wait = deadline - now < most ? deadline - now : most;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

}  // namespace

SocketLoop::SocketLoop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      pool_(BufferPool::Create(kIdleBytes)) {
  Watch(nullptr, wake_.get(), EPOLLIN, /*known=*/false);
}

SocketLoop::~SocketLoop() { Shutdown(); }

bool SocketLoop::PollOnce(TimePoint deadline) {
  while (true) {
    if (DeliverEnds()) return true;
    epoll_event event = {};
    // One event at a time: its handler may end any other stream.
    const int ready = epoll_wait(epoll_.get(), &event, 1, MillisUntil(deadline));
    if (ready == 1) {
      if (event.data.ptr != nullptr) {
        static_cast<SocketStream*>(event.data.ptr)->OnReady(event.events);
        return true;
      }
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
      return true;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

void SocketLoop::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void SocketLoop::Shutdown() {
  while (!streams_.empty()) {
    for (const auto& [stream, reference] : streams_) stream->Abort();
    DeliverEnds();
  }
}

void SocketLoop::Add(std::shared_ptr<SocketStream> stream) {
  SocketStream* const key = stream.get();
  streams_.emplace(key, std::move(stream));
}

void SocketLoop::Watch(SocketStream* stream, int fd, uint32_t events, bool known) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = stream;
  epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
}

bool SocketLoop::DeliverEnds() {
  bool any = false;
  while (!ended_.empty()) {
    const auto found = streams_.find(ended_.back());
    ended_.pop_back();
    const std::shared_ptr<SocketStream> stream = std::move(found->second);
    streams_.erase(found);
    stream->DeliverEnd();
    any = true;
  }
  return any;
}

}  // namespace cohort
