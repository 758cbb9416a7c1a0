#include "ps_server/background_thread.h"

#include <pthread.h>

#include <utility>

namespace cohort {

BackgroundThread::BackgroundThread() : thread_([this] { ThreadMain(); }) {}

void BackgroundThread::Run(std::function<void()> function) {
  MutexLock lock(&mu_);
  if (stopping_) return;
  queue_.push_back(std::move(function));
  changed_.Signal();
}

void BackgroundThread::Stop() {
  std::deque<std::function<void()>> dropped;
  {
    MutexLock lock(&mu_);
    stopping_ = true;
    dropped.swap(queue_);
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

void BackgroundThread::ThreadMain() {
  pthread_setname_np(pthread_self(), "background");
  while (true) {
    std::function<void()> function;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !stopping_) changed_.Wait(&mu_);
      if (stopping_) return;
      function = std::move(queue_.front());
      queue_.pop_front();
    }
    function();
  }
}

}  // namespace cohort
