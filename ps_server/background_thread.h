#ifndef COHORT_PS_SERVER_BACKGROUND_THREAD_H_
#define COHORT_PS_SERVER_BACKGROUND_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "common/base/mutex.h"

namespace cohort {

// One thread that runs functions one after another: what PsCore uses to write snapshots and to make
// tablets, so that no completion queue waits for a disk.
class BackgroundThread {
 public:
  BackgroundThread();
  // Waits for the function under way; those behind it are dropped.
  ~BackgroundThread() { Stop(); }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Ignored after Stop. Thread-safe.
  void Run(std::function<void()> function);
  // As the destructor. Idempotent.
  void Stop();

 private:
  void ThreadMain();

  Mutex mu_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_BACKGROUND_THREAD_H_
