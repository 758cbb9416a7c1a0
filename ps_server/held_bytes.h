#ifndef COHORT_PS_SERVER_HELD_BYTES_H_
#define COHORT_PS_SERVER_HELD_BYTES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace cohort {

class Stream;

// What requests hold of which the end has not come, and what streams keep for the next one, over
// all streams of a server: their clients may take their time, and there may be many. Where they all
// hold what they may, a request of which nothing has come for a while gives way: its stream is
// closed, and half a request is nothing. Thread-safe.
class HeldBytes {
 public:
  explicit HeldBytes(size_t most, Duration patience = std::chrono::seconds(10))
      : most_(most), patience_(patience) {}

  // One stream's share; given back with it. Of one thread.
  class Share {
   public:
    Share(HeldBytes* all, std::weak_ptr<Stream> stream);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // A part of a request has come, and it holds so much until its end. False where all together
    // would hold more than they may: the share is as before then.
    bool Hold(size_t bytes);
    // All of the request is there: it waits for nothing more.
    void Complete();
    // No request is unfinished, and so much is kept for the next one. False where it would leave
    // too little for those that come; the share is as before then.
    bool Keep(size_t bytes);

   private:
    friend class HeldBytes;
    bool Set(size_t bytes, size_t most);

    HeldBytes* const all_;
    const std::weak_ptr<Stream> stream_;
    size_t bytes_ = 0;
    std::atomic<int64_t> waits_since_{0};  // nanoseconds of the clock; 0: no request is unfinished
    std::atomic<bool> told_{false};        // to end
  };

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t most() const { return most_; }

 private:
  void EndIdle(int64_t now, const Share* but);

  const size_t most_;
  const Duration patience_;
  std::atomic<size_t> bytes_{0};
  Mutex mu_;
  std::set<Share*> shares_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_HELD_BYTES_H_
