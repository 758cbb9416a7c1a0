#ifndef COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_
#define COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace cohort {

// The running mean of the time from a frame to the answer of this end of a stream. Frames arrive on
// one thread; any thread may send. A lost sample, or one slightly below 0, does no harm.
class AnswerTime {
 public:
  using Clock = std::chrono::steady_clock;

  // `limit`: a mean below it is short. 0: nothing is short, and nothing is measured.
  explicit AnswerTime(std::chrono::nanoseconds limit) : limit_(limit.count()) {}

  bool measured() const { return limit_ > 0; }
  // True if the mean is short. A frame that is not answered before the next one counts as long. An
  // unknown mean is short.
  bool IsShort() const { return mean_.load(std::memory_order_relaxed) < limit_; }

  // Call before a frame is handled.
  void OnFrame(Clock::time_point now) {
    if (frame_.exchange(Nanos(now), std::memory_order_relaxed) != 0) Note(kLong * limit_);
  }
  // Call when something is sent. The first send after a frame is its answer.
  void OnSend(Clock::time_point now) {
    const int64_t frame = frame_.exchange(0, std::memory_order_relaxed);
    // Limits the weight of one long pause.
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
  std::atomic<int64_t> frame_{0};  // arrival of the last frame; 0: it was answered
  std::atomic<int64_t> mean_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_ANSWER_TIME_H_
