#include "chief/serial_thread.h"

#include <utility>

namespace cohort {

SerialThread::~SerialThread() {
  {
    MutexLock lock(&mu_);
    ending_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void SerialThread::Post(std::function<void()> function) {
  MutexLock lock(&mu_);
  queue_.push_back(std::move(function));
  changed_.Signal();
}

void SerialThread::Run() {
  while (true) {
    std::function<void()> next;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && !ending_) changed_.Wait(&mu_);
      if (queue_.empty()) return;
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next();
  }
}

}  // namespace cohort
