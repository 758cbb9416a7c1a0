#include "common/base/serial_thread.h"

#include <pthread.h>

#include <utility>

namespace cohort {

SerialThread::SerialThread(std::string name)
    : name_(name.substr(0, 15)), thread_([this] { Run(); }) {}

void SerialThread::Post(std::function<void()> function) {
  MutexLock lock(&mu_);
  if (ended_ || state_ == State::kDropping) return;
  queue_.push_back(std::move(function));
  changed_.Signal();
}

void SerialThread::End(State how) {
  std::deque<std::function<void()>> dropped;
  {
    MutexLock lock(&mu_);
    if (state_ != State::kRunning) return;
    state_ = how;
    if (how == State::kDropping) dropped.swap(queue_);
    changed_.Signal();
  }
  dropped.clear();  // without the lock, for what they own
  thread_.join();
}

void SerialThread::Run() {
  pthread_setname_np(pthread_self(), name_.c_str());
  while (true) {
    std::function<void()> next;
    {
      MutexLock lock(&mu_);
      while (queue_.empty() && state_ == State::kRunning) changed_.Wait(&mu_);
      if (queue_.empty()) {
        ended_ = true;
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next();
  }
}

}  // namespace cohort
