#ifndef COHORT_COMMON_BASE_SERIAL_THREAD_H_
#define COHORT_COMMON_BASE_SERIAL_THREAD_H_

#include <chrono>
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
  // (those behind it are destroyed). The first call says how; later ones wait alike. From one
  // thread at a time.
  void Finish() { End(State::kFinishing, kNever); }
  void Drop() { End(State::kDropping, kNever); }
  // As Finish and Drop, until the deadline. False: the function under way has not returned, and
  // Finish, Drop and the destructor still wait for it.
  [[nodiscard]] bool FinishUntil(std::chrono::steady_clock::time_point deadline) {
    return End(State::kFinishing, deadline);
  }
  [[nodiscard]] bool DropUntil(std::chrono::steady_clock::time_point deadline) {
    return End(State::kDropping, deadline);
  }

 private:
  static constexpr auto kNever = std::chrono::steady_clock::time_point::max();
  enum class State { kRunning, kFinishing, kDropping };
  bool End(State how, std::chrono::steady_clock::time_point deadline);
  void Run();

  const std::string name_;
  Mutex mu_;
  CondVar changed_;
  CondVar end_reached_;
  State state_ ABSL_GUARDED_BY(mu_) = State::kRunning;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_SERIAL_THREAD_H_
