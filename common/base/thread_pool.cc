#include "common/base/thread_pool.h"

#include <pthread.h>

namespace cohort {

ThreadPool::ThreadPool(int threads, const char* thread_name) {
  for (int i = 1; i < threads; ++i) {
    helpers_.emplace_back([this, thread_name] {
      pthread_setname_np(pthread_self(), thread_name);
      ThreadMain();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    wake_.SignalAll();
  }
  for (std::thread& thread : helpers_) thread.join();
}

void ThreadPool::Job::Take() {
  for (size_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < items;) work(i);
}

void ThreadPool::ForEach(size_t items, absl::FunctionRef<void(size_t)> work) {
  Job job(items, work);
  if (helpers_.empty() || items < 2 || busy_.exchange(true, std::memory_order_acquire)) {
    return job.Take();
  }
  {
    MutexLock lock(&mu_);
    job_ = &job;
    ++number_;
    wake_.SignalAll();
  }
  job.Take();
  {
    MutexLock lock(&mu_);
    job_ = nullptr;  // a helper that comes now is too late
    while (active_ > 0) idle_.Wait(&mu_);
  }
  busy_.store(false, std::memory_order_release);
}

void ThreadPool::ThreadMain() {
  uint64_t seen = 0;
  MutexLock lock(&mu_);
  while (true) {
    while (!stop_ && (job_ == nullptr || number_ == seen)) wake_.Wait(&mu_);
    if (stop_) return;
    seen = number_;
    Job* const job = job_;
    ++active_;
    mu_.Unlock();
    job->Take();
    mu_.Lock();
    if (--active_ == 0) idle_.Signal();
  }
}

}  // namespace cohort
