#ifndef COHORT_PS_SERVER_HELD_BYTES_H_
#define COHORT_PS_SERVER_HELD_BYTES_H_

#include <atomic>
#include <cstddef>

namespace cohort {

// What requests hold of which the end has not come, and what streams keep for the next one, over
// all streams of a server: their clients may take their time, and there may be many. Thread-safe.
class HeldBytes {
 public:
  explicit HeldBytes(size_t most) : most_(most) {}

  // One request's share; given back with it.
  class Share {
   public:
    explicit Share(HeldBytes* all) : all_(all) {}
    ~Share() { Set(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // What the request holds now. False where all together would hold more than they may: it is as
    // before then.
    bool Set(size_t bytes) {
      if (bytes == bytes_) return true;
      // Where it becomes less the sum wraps around and fits.
      const size_t more = bytes - bytes_;
      const size_t now = all_->bytes_.fetch_add(more, std::memory_order_relaxed) + more;
      if (bytes > bytes_ && now > all_->most_) {
        all_->bytes_.fetch_sub(more, std::memory_order_relaxed);
        return false;
      }
      bytes_ = bytes;
      return true;
    }

   private:
    HeldBytes* const all_;
    size_t bytes_ = 0;
  };

  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  size_t most() const { return most_; }

 private:
  const size_t most_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_HELD_BYTES_H_
