#ifndef COHORT_COMMON_BASE_WORK_POOL_H_
#define COHORT_COMMON_BASE_WORK_POOL_H_

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// Threads that help with work of many items. The pool hands out items one by one, so a helper that comes
// late, or not at all because its core is busy, costs the caller nothing. The caller waits only for
// items that a helper has begun.
class WorkPool {
 public:
  // 0 helpers: everything runs on the caller.
  // `thread_name`: of the helpers, at most 15 characters.
  explicit WorkPool(int helpers, const char* thread_name = "work");
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  int helpers() const { return static_cast<int>(threads_.size()); }

  // Calls work(i) once for each i in [0, items), on this thread and the helpers. Returns when all
  // calls have returned. Thread-safe: while one caller uses the helpers, others do their work
  // alone.
  void Run(size_t items, absl::FunctionRef<void(size_t)> work);

 private:
  struct Job {
    Job(size_t count, absl::FunctionRef<void(size_t)> function) : items(count), work(function) {}
    void Take();

    const size_t items;
    const absl::FunctionRef<void(size_t)> work;
    std::atomic<size_t> next{0};
  };

  void ThreadMain();

  std::atomic<bool> busy_{false};  // a caller uses the helpers
  Mutex mu_;
  CondVar wake_;
  CondVar idle_;
  Job* job_ ABSL_GUARDED_BY(mu_) = nullptr;
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;  // number of the job
  int active_ ABSL_GUARDED_BY(mu_) = 0;       // helpers that work on it
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_WORK_POOL_H_
