#ifndef COHORT_COMMON_BASE_THREAD_POOL_H_
#define COHORT_COMMON_BASE_THREAD_POOL_H_

#include <absl/functional/function_ref.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// Threads that help the caller with work of many items, or with one large array. The pool hands out
// items one by one, so a helper that comes late, or not at all because its core is busy, costs the
// caller nothing. The caller waits only for items that a helper has begun.
class ThreadPool {
 public:
  // `threads`: with the caller. A pool of one, or less, has no thread and takes no lock.
  // `thread_name`: of the helpers, at most 15 characters.
  explicit ThreadPool(int threads, const char* thread_name = "work");
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return 1 + static_cast<int>(helpers_.size()); }

  // Calls work(i) once for each i in [0, items), on this thread and the helpers. Returns when all
  // calls have returned. Thread-safe: while one caller uses the helpers, others do their work
  // alone.
  void ForEach(size_t items, absl::FunctionRef<void(size_t)> work);

  // As ForEach, with fn(begin, end) for parts of [0, count). All parts but the last are multiples
  // of `grain`. The caller does work of one grain or less alone. The parts depend only on count,
  // grain and the number of threads.
  template <typename Fn>
  void ParallelFor(int64_t count, int64_t grain, const Fn& fn) {
    if (helpers_.empty() || count <= grain) {
      if (count > 0) fn(int64_t{0}, count);
      return;
    }
    const int64_t grains = (count + grain - 1) / grain;
    const int64_t part = (grains + threads() - 1) / threads() * grain;
    ForEach(static_cast<size_t>((count + part - 1) / part), [&](size_t i) {
      const int64_t begin = static_cast<int64_t>(i) * part;
      fn(begin, std::min(count, begin + part));
    });
  }

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
  std::vector<std::thread> helpers_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_THREAD_POOL_H_
