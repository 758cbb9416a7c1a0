#ifndef COHORT_PS_SERVER_UNSENT_ANSWERS_H_
#define COHORT_PS_SERVER_UNSENT_ANSWERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tensor/buffer.h"

namespace cohort {

// The values of answers that clients have not taken yet. An answer counts as a whole until its last
// byte has left, because its values keep one version of the weights alive. Thread-safe.
class UnsentAnswers : public std::enable_shared_from_this<UnsentAnswers> {
 public:
  // One answer. Its slices hold it.
  class Answer {
   public:
    ~Answer();
    // The same bytes, which count until they are released.
    static BufferRef Count(std::shared_ptr<Answer> answer, BufferRef buffer);

   private:
    friend class UnsentAnswers;
    class Slice;
    Answer(std::shared_ptr<UnsentAnswers> all, uint64_t bytes, std::function<void()> abort);

    const std::shared_ptr<UnsentAnswers> all_;
    const uint64_t bytes_;
    const std::function<void()> abort_;
    std::atomic<int64_t> moved_ns_;  // when a slice was sent last
  };

  // `abort` ends the client's stream.
  std::shared_ptr<Answer> Begin(uint64_t bytes, std::function<void()> abort);
  uint64_t bytes() const { return bytes_.load(); }

  // `sent`: called on any thread, whenever an answer has ended. Null: nothing is called any more
  // when this returns.
  void OnSent(std::function<void()> sent);
  // Ends the streams of clients that have taken nothing of their answers for this time. Others wait
  // for the memory.
  void EndIdle(Duration patience);

 private:
  std::atomic<uint64_t> bytes_{0};
  Mutex mu_;
  std::set<Answer*> answers_ ABSL_GUARDED_BY(mu_);
  std::function<void()> sent_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_UNSENT_ANSWERS_H_
