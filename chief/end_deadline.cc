#include "chief/end_deadline.h"

#include <unistd.h>

namespace cohort {

EndDeadline::EndDeadline() : thread_([this] { Run(); }) {}

EndDeadline::~EndDeadline() {
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void EndDeadline::Set(TimePoint at, int code) {
  MutexLock lock(&mu_);
  at_ = at;
  code_ = code;
  changed_.SignalAll();
}

void EndDeadline::Run() {
  MutexLock lock(&mu_);
  while (!stopped_) {
    if (at_ == TimePoint::max()) {
      changed_.Wait(&mu_);
    } else if (std::chrono::steady_clock::now() < at_) {
      changed_.WaitUntil(&mu_, at_);
    } else {
      _exit(code_);
    }
  }
}

}  // namespace cohort
