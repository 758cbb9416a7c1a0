#ifndef COHORT_CHIEF_SERIAL_THREAD_H_
#define COHORT_CHIEF_SERIAL_THREAD_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace cohort {

// A thread that runs functions one after another: where the disk is waited for.
class SerialThread {
 public:
  SerialThread() : thread_([this] { Run(); }) {}
  // Runs what is queued, then ends.
  ~SerialThread();
  void Post(std::function<void()> function);

 private:
  void Run();

  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_SERIAL_THREAD_H_
