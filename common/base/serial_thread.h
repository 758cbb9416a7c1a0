#ifndef COHORT_COMMON_BASE_SERIAL_THREAD_H_
#define COHORT_COMMON_BASE_SERIAL_THREAD_H_

#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace cohort {

// A thread that runs functions one after another: where a disk is waited for, or work takes long.
class SerialThread {
 public:
  // `name` is the thread's; its first 15 characters are seen from outside.
  explicit SerialThread(std::string name);
  // As Finish.
  ~SerialThread() { Finish(); }
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // Thread-safe, also from a function that runs here. Once the thread has ended it does nothing.
  void Post(std::function<void()> function);
  // Ends the thread: Finish when all that is queued has run, Drop after the function under way
  // (those behind it are destroyed). The first call counts; later ones do nothing.
  void Finish() { End(State::kFinishing); }
  void Drop() { End(State::kDropping); }

 private:
  enum class State { kRunning, kFinishing, kDropping };
  void End(State how);
  void Run();

  const std::string name_;
  Mutex mu_;
  CondVar changed_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kRunning;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_SERIAL_THREAD_H_
