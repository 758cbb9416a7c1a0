#ifndef COHORT_COMMON_RPC_STREAM_FRAME_QUEUE_H_
#define COHORT_COMMON_RPC_STREAM_FRAME_QUEUE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "common/rpc/stream/frame.h"

namespace cohort {

// A first-in, first-out queue in one block of memory that it keeps. A steady state allocates
// nothing, unlike a deque.
class FrameQueue {
 public:
  bool empty() const { return head_ == frames_.size(); }
  size_t bytes() const { return bytes_; }

  void Push(Frame frame) {
    bytes_ += frame.size();
    if (frames_.size() == frames_.capacity() && head_ > frames_.size() / 2) {
      frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
    frames_.push_back(std::move(frame));
  }

  // The queue must not be empty.
  Frame Pop() {
    Frame frame = std::move(frames_[head_++]);
    bytes_ -= frame.size();
    if (empty()) Clear();
    return frame;
  }

  void Clear() {
    frames_.clear();
    head_ = 0;
    bytes_ = 0;
  }

 private:
  std::vector<Frame> frames_;
  size_t head_ = 0;
  size_t bytes_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_FRAME_QUEUE_H_
