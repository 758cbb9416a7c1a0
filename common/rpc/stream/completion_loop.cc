#include "common/rpc/stream/completion_loop.h"

#include <grpc/support/time.h>
#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <pthread.h>

#include <algorithm>

#include "common/rpc/stream/hand_off.h"
#include "common/rpc/stream/stream.h"

namespace cohort {
namespace {

gpr_timespec ToGrpcTime(CompletionLoop::Clock::time_point time) {
  if (time == CompletionLoop::kForever) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  // In libstdc++ steady_clock is CLOCK_MONOTONIC, as in gRPC.
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
  gpr_timespec spec;
  spec.tv_sec = since.count() / 1'000'000'000;
  spec.tv_nsec = static_cast<int32_t>(since.count() % 1'000'000'000);
  spec.clock_type = GPR_CLOCK_MONOTONIC;
  return spec;
}

int64_t ToNanos(CompletionLoop::Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

void Deliver(void* tag, bool ok) {
  auto* completion = static_cast<CompletionTag*>(tag);
  HandOffAcquire(completion);
  completion->OnCompletion(ok);
}

}  // namespace

void* CompletionTag::Arm() {
  HandOffRelease(this);
  return this;
}

void CompletionLoop::WakeTag::OnCompletion(bool ok) { loop_->RunPosted(); }

CompletionLoop::CompletionLoop() : CompletionLoop(std::make_unique<grpc::CompletionQueue>()) {}

CompletionLoop::CompletionLoop(std::unique_ptr<grpc::CompletionQueue> queue)
    : queue_(std::move(queue)), alarm_(std::make_unique<grpc::Alarm>()) {}

CompletionLoop::~CompletionLoop() { Shutdown(); }

void CompletionLoop::Start(const std::string& name) {
  thread_ = std::thread([this, name] {
    pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
    while (!Drained()) PollOnce(kForever);
  });
}

bool CompletionLoop::PollOnce(Clock::time_point deadline) {
  struct Polling {
    explicit Polling(std::atomic<std::thread::id>* id) : id_(id) {
      id_->store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Polling() { id_->store(std::thread::id(), std::memory_order_relaxed); }
    std::atomic<std::thread::id>* id_;
  } polling(&polling_thread_);
  while (true) {
    if (RunDueTimers()) return true;
    void* tag = nullptr;
    bool ok = false;
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    switch (queue_->AsyncNext(&tag, &ok, ToGrpcTime(EarlierOf(deadline)))) {
      case grpc::CompletionQueue::GOT_EVENT:
        Deliver(tag, ok);
        return true;
      case grpc::CompletionQueue::SHUTDOWN:
        return false;
      case grpc::CompletionQueue::TIMEOUT:
        if (Clock::now() >= deadline) return RunDueTimers();
    }
  }
}

bool CompletionLoop::RunUntil(absl::FunctionRef<bool()> done, Clock::time_point deadline) {
  while (!done()) {
    if (!PollOnce(deadline)) return done();
  }
  return true;
}

void CompletionLoop::Wake() {
  MutexLock lock(&mu_);
  WakeLocked();
}

void CompletionLoop::WakeLocked() {
  if (wake_pending_ || closed_) return;
  wake_pending_ = true;
  alarm_->Set(queue_.get(), gpr_time_0(GPR_CLOCK_MONOTONIC), wake_tag_.Arm());
}

void CompletionLoop::Post(std::function<void()> function) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  posted_.push_back(std::move(function));
  WakeLocked();
}

void CompletionLoop::RunPosted() {
  {
    MutexLock lock(&mu_);
    wake_pending_ = false;
    running_.swap(posted_);
  }
  for (auto& function : running_) function();
  running_.clear();
}

CompletionLoop::TimerId CompletionLoop::After(std::chrono::nanoseconds delay,
                                              std::function<void()> function) {
  const Clock::time_point when = Clock::now() + delay;
  MutexLock lock(&mu_);
  const TimerId id = next_timer_id_++;
  if (stopping_) return id;
  timers_.emplace(std::make_pair(when, id), std::move(function));
  timer_times_.emplace(id, when);
  const bool earliest = timers_.begin()->first.second == id;
  if (earliest) {
    next_timer_ns_.store(ToNanos(when), std::memory_order_relaxed);
    if (!OnPollingThread()) WakeLocked();
  }
  return id;
}

bool CompletionLoop::CancelTimer(TimerId id) {
  std::function<void()> dropped;
  MutexLock lock(&mu_);
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return false;
  const auto timer = timers_.find({found->second, id});
  dropped = std::move(timer->second);
  timers_.erase(timer);
  timer_times_.erase(found);
  next_timer_ns_.store(timers_.empty() ? INT64_MAX : ToNanos(timers_.begin()->first.first),
                       std::memory_order_relaxed);
  return true;
}

CompletionLoop::Clock::time_point CompletionLoop::EarlierOf(Clock::time_point deadline) {
  const int64_t next = next_timer_ns_.load(std::memory_order_relaxed);
  if (next == INT64_MAX) return deadline;
  return std::min(deadline, Clock::time_point(std::chrono::nanoseconds(next)));
}

bool CompletionLoop::RunDueTimers() {
  const int64_t next = next_timer_ns_.load(std::memory_order_relaxed);
  if (next == INT64_MAX) return false;
  const Clock::time_point now = Clock::now();
  if (next > ToNanos(now)) return false;
  bool ran = false;
  while (true) {
    std::function<void()> function;
    {
      MutexLock lock(&mu_);
      const auto first = timers_.begin();
      if (first == timers_.end() || first->first.first > now) break;
      function = std::move(first->second);
      timer_times_.erase(first->first.second);
      timers_.erase(first);
      next_timer_ns_.store(timers_.empty() ? INT64_MAX : ToNanos(timers_.begin()->first.first),
                           std::memory_order_relaxed);
    }
    function();
    ran = true;
  }
  return ran;
}

bool CompletionLoop::AddStream(std::shared_ptr<Stream> stream) {
  MutexLock lock(&mu_);
  if (stopping_) return false;
  Stream* key = stream.get();
  streams_.emplace(key, std::move(stream));
  return true;
}

void CompletionLoop::RemoveStream(Stream* stream) {
  std::shared_ptr<Stream> removed;
  MutexLock lock(&mu_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  removed = std::move(found->second);
  streams_.erase(found);
}

std::vector<std::shared_ptr<Stream>> CompletionLoop::streams() const {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<Stream>> all;
  for (const auto& entry : streams_) all.push_back(entry.second);
  return all;
}

bool CompletionLoop::Drained() const {
  MutexLock lock(&mu_);
  return stopping_ && streams_.empty();
}

void CompletionLoop::Shutdown() {
  std::vector<std::function<void()>> posted;
  decltype(timers_) timers;
  {
    MutexLock lock(&mu_);
    if (closed_) return;
    stopping_ = true;
    posted.swap(posted_);
    timers.swap(timers_);
    timer_times_.clear();
    next_timer_ns_.store(INT64_MAX, std::memory_order_relaxed);
    WakeLocked();
  }
  for (const auto& stream : streams()) stream->Abort();
  if (thread_.joinable()) {
    thread_.join();
  } else {
    while (!Drained()) PollOnce(kForever);
  }
  {
    MutexLock lock(&mu_);
    closed_ = true;
  }
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) Deliver(tag, ok);
}

}  // namespace cohort
