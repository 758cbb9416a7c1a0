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

bool SerialThread::End(State how, std::chrono::steady_clock::time_point deadline) {
  std::deque<std::function<void()>> dropped;
  {
    MutexLock lock(&mu_);
    if (state_ == State::kRunning) {
      state_ = how;
      if (how == State::kDropping) dropped.swap(queue_);
      changed_.Signal();
    }
  }
  dropped.clear();  // without the lock: their destructors may run anything
  if (deadline != kNever) {
    MutexLock lock(&mu_);
    while (!ended_) {
      if (!end_reached_.WaitUntil(&mu_, deadline) && !ended_) return false;
    }
  }
  if (thread_.joinable()) thread_.join();
  return true;
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
        end_reached_.Signal();
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next();
  }
}

}  // namespace cohort
