#ifndef COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_
#define COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace cohort {

// How soon one end of a stream speaks after a frame has come: a running mean. Frames come on one
// thread; what is sent may come from any, and a sample that is lost, or a little below 0, harms
// nothing.
class AnswerTime {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit`: what is shorter is short; 0: nothing is, and nothing is measured.
  explicit AnswerTime(std::chrono::nanoseconds limit) : limit_(limit.count()) {}

  bool measured() const { return limit_ > 0; }
  // Whether the mean is short. A frame that is not answered before the next one counts as long;
  // what is not known yet is short.
  bool IsShort() const { return mean_.load(std::memory_order_relaxed) < limit_; }

  // A frame is about to be handled.
  void OnFrame(Clock::time_point now) {
    if (frame_.exchange(Nanos(now), std::memory_order_relaxed) != 0) Note(kLong * limit_);
  }
  // Something is sent; the first since the frame is its answer.
  void OnSend(Clock::time_point now) {
    const int64_t frame = frame_.exchange(0, std::memory_order_relaxed);
    // One long pause is soon forgotten.
    if (frame != 0) Note(std::min(Nanos(now) - frame, kLong * limit_));
  }

 private:
  static constexpr int64_t kLong = 4;

  static int64_t Nanos(Clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  }
  void Note(int64_t took) {
    const int64_t mean = mean_.load(std::memory_order_relaxed);
    mean_.store(mean + (took - mean) / 8, std::memory_order_relaxed);
  }

  const int64_t limit_;
  std::atomic<int64_t> frame_{0};  // when the last frame came; 0: it was answered
  std::atomic<int64_t> mean_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_
