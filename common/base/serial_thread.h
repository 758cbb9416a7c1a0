#ifndef COHORT_COMMON_BASE_SERIAL_THREAD_H_
#define COHORT_COMMON_BASE_SERIAL_THREAD_H_

#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "common/base/mutex.h"

namespace cohort {

// A thread that runs functions one after another, for work that waits for a disk or takes long.
class SerialThread {
 public:
  // `name` names the thread; the system shows its first 15 characters.
  explicit SerialThread(std::string name);
  // Calls Finish.
  ~SerialThread() { Finish(); }
  SerialThread(const SerialThread&) = delete;
  SerialThread& operator=(const SerialThread&) = delete;

  // Queues a function. Thread-safe, also from a function that runs here. Does nothing once the
  // thread has ended.
  void Post(std::function<void()> function);
  // Both end the thread. Finish first runs everything that is queued. Drop lets only the running
  // function return and destroys the queued ones. The first call decides which; later calls only
  // wait. Call them from one thread at a time.
  void Finish() { End(State::kFinishing, kNever); }
  void Drop() { End(State::kDropping, kNever); }
  // The same with a deadline. Return false if the running function has not returned in time;
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
