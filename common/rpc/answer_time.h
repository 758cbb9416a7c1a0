#ifndef COHORT_COMMON_RPC_ANSWER_TIME_H_
#define COHORT_COMMON_RPC_ANSWER_TIME_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace cohort {

// How soon one end of a stream speaks after a frame has come: a running mean. Frames come on one
// thread; what is sent may come from any, and a lost or doubled sample does no harm.
class AnswerTime {
 public:
  using Clock = std::chrono::steady_clock;
  // About what it takes to wake a thread on another core and to let it find that there is no answer
  // yet. (A round trip over loopback was measured at 13 us on one core and at 53 across two.)
  static constexpr std::chrono::nanoseconds kShort = std::chrono::microseconds(50);

  void OnFrame(Clock::time_point now) { frame_.store(Nanos(now), std::memory_order_relaxed); }
  void OnSend(Clock::time_point now) {
    const int64_t frame = frame_.exchange(0, std::memory_order_relaxed);
    if (frame == 0) return;  // not the first since the frame
    // One long pause is soon forgotten.
    const int64_t took = std::min<int64_t>(Nanos(now) - frame, 4 * kShort.count());
    const int64_t mean = mean_.load(std::memory_order_relaxed);
    mean_.store(mean + (took - mean) / 8, std::memory_order_relaxed);
  }
  // Whether the next answer will probably be there before a peer that is woken now could wait for
  // it. True until something else is known.
  bool IsShort() const { return mean_.load(std::memory_order_relaxed) < kShort.count(); }

 private:
  static int64_t Nanos(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }

  std::atomic<int64_t> frame_{0};  // when the last frame came; 0: it was answered
  std::atomic<int64_t> mean_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ANSWER_TIME_H_
