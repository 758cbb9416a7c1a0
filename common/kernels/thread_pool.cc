#include "common/kernels/thread_pool.h"

#include <algorithm>

namespace cohort {

ThreadPool::ThreadPool(int threads) : threads_(std::max(threads, 1)) {
  for (int i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { ThreadMain(i); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    wake_.SignalAll();
  }
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::RunPart(const Job& job, int index) {
  const int64_t begin = std::min(job.count, job.part * index);
  const int64_t end = std::min(job.count, begin + job.part);
  if (begin < end) job.call(job.fn, begin, end);
}

void ThreadPool::RunParts(int64_t count, int64_t grain, const void* fn, PartFn call) {
  const int64_t grains = (count + grain - 1) / grain;
  const Job job = {fn, call, count, (grains + threads_ - 1) / threads_ * grain};
  {
    MutexLock lock(&mu_);
    job_ = job;
    ++job_number_;
    running_ = threads_ - 1;
    wake_.SignalAll();
  }
  RunPart(job, 0);
  MutexLock lock(&mu_);
  while (running_ > 0) done_.Wait(&mu_);
}

void ThreadPool::ThreadMain(int index) {
  uint64_t seen = 0;
  while (true) {
    Job job;
    {
      MutexLock lock(&mu_);
      while (!stop_ && job_number_ == seen) wake_.Wait(&mu_);
      if (stop_) return;
      seen = job_number_;
      job = job_;
    }
    RunPart(job, index);
    MutexLock lock(&mu_);
    if (--running_ == 0) done_.Signal();
  }
}

}  // namespace cohort
