#include "ps_server/unsent_answers.h"

#include <utility>
#include <vector>

namespace cohort {
namespace {

int64_t NowNanos() { return RealClock().Now().time_since_epoch().count(); }

}  // namespace

class UnsentAnswers::Answer::Slice : public BufferMemory {
 public:
  Slice(std::shared_ptr<Answer> answer, BufferRef buffer)
      : answer_(std::move(answer)), buffer_(std::move(buffer)) {}
  // The values first: whoever waits for the memory finds it free.
  ~Slice() override {
    buffer_ = BufferRef();
    answer_->moved_ns_.store(NowNanos(), std::memory_order_relaxed);
  }

 private:
  const std::shared_ptr<Answer> answer_;
  BufferRef buffer_;
};

UnsentAnswers::Answer::Answer(std::shared_ptr<UnsentAnswers> all, uint64_t bytes,
                              std::function<void()> abort)
    : all_(std::move(all)), bytes_(bytes), abort_(std::move(abort)), moved_ns_(NowNanos()) {}

UnsentAnswers::Answer::~Answer() {
  MutexLock lock(&all_->mu_);
  all_->bytes_.fetch_sub(bytes_);  // before sent_ looks whether somebody waits
  all_->answers_.erase(this);
  if (all_->sent_) all_->sent_();
}

BufferRef UnsentAnswers::Answer::Count(std::shared_ptr<Answer> answer, BufferRef buffer) {
  uint8_t* const data = buffer->data();
  const size_t size = buffer->size();
  return BufferRef::Within(std::make_unique<Slice>(std::move(answer), std::move(buffer)), data,
                           size);
}

std::shared_ptr<UnsentAnswers::Answer> UnsentAnswers::Begin(uint64_t bytes,
                                                            std::function<void()> abort) {
  std::shared_ptr<Answer> answer(new Answer(shared_from_this(), bytes, std::move(abort)));
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  MutexLock lock(&mu_);
  answers_.insert(answer.get());
  return answer;
}

void UnsentAnswers::OnSent(std::function<void()> sent) {
  MutexLock lock(&mu_);
  sent_ = std::move(sent);
}

void UnsentAnswers::EndIdle(Duration patience) {
  std::vector<std::function<void()>> idle;
  {
    const int64_t now = NowNanos();
    MutexLock lock(&mu_);
    for (const Answer* const answer : answers_) {
      if (now - answer->moved_ns_.load(std::memory_order_relaxed) < patience.count()) continue;
      idle.push_back(answer->abort_);
    }
  }
  for (const std::function<void()>& abort : idle) abort();
}

}  // namespace cohort
