#ifndef COHORT_PS_SERVER_HELD_BYTES_H_
#define COHORT_PS_SERVER_HELD_BYTES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

class Stream;

// The memory that requests hold until they are answered, and the memory that streams keep for their
// next request, over all streams of a server: clients may take their time, and there may be many.
// If the memory reaches its limit, the stream of a request that has waited long for its next
// message is closed, because half a request cannot be executed. The unfinished request that began
// first may have the memory that is left to a large one: if all slow clients had to restart, none
// would end. Thread-safe.
class HeldBytes {
 public:
  // `most`: the limit. `patience`: how long an unfinished request may wait for its next message
  // while others lack memory.
  explicit HeldBytes(size_t most, Duration patience = std::chrono::seconds(10))
      : most_(most), most_alone_(most), patience_(patience) {}

  // One request's share, which is given back when it is destroyed. It belongs to the holder of the
  // request, except the fields that EndIdle reads.
  class Share {
   public:
    Share(HeldBytes* all, std::weak_ptr<Stream> stream);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // A part of the request has come; it holds `bytes` until the request ends. Returns false and
    // leaves the share unchanged if all shares together would exceed the limit, or that of a large
    // request while others hold little.
    bool Hold(size_t bytes);
    // The request is complete: it waits for no more messages.
    void Complete();
    // The whole request is kept until it is answered later. The result is as for Hold.
    bool HoldWhole(size_t bytes);
    // The request has ended, and `bytes` are kept for the next one. Returns false and leaves the
    // share unchanged if this would leave too little for later requests.
    bool Keep(size_t bytes);

   private:
    friend class HeldBytes;
    bool Set(size_t bytes, size_t most);
    bool SetAlone(size_t bytes);
    bool IsOldest() const;

    HeldBytes* const all_;
    const std::weak_ptr<Stream> stream_;
    size_t bytes_ = 0;
    // Read by EndIdle.
    std::atomic<int64_t> waits_since_{0};  // nanoseconds of the clock; 0: no request is unfinished
    std::atomic<bool> closed_{false};      // EndIdle has closed its stream
    // The number of the unfinished request, in the order in which they began; 0: none. Read by
    // IsOldest.
    std::atomic<uint64_t> began_{0};
  };

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t most() const { return most_.load(std::memory_order_relaxed); }
  // The limit of one large request while others hold little: no larger one can ever come.
  size_t most_alone() const { return std::max(most(), most_alone_.load()); }
  // Changes the limits for what is held from now on.
  void SetMost(size_t bytes, size_t alone) {
    most_.store(bytes, std::memory_order_relaxed);
    most_alone_.store(alone, std::memory_order_relaxed);
  }

 private:
  void EndIdle(int64_t now, const Share* but);

  std::atomic<size_t> most_;
  std::atomic<size_t> most_alone_;
  const Duration patience_;
  std::atomic<size_t> bytes_{0};
  std::atomic<uint64_t> begun_{0};  // unfinished requests so far
  Mutex mu_;
  std::set<Share*> shares_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_HELD_BYTES_H_
