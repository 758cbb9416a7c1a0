#ifndef COHORT_COMMON_KERNELS_THREAD_POOL_H_
#define COHORT_COMMON_KERNELS_THREAD_POOL_H_

#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// Splits the rows of one large op over a few threads. The caller is one of them, so a pool of one
// has no thread and takes no lock. One caller at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls fn(begin, end) for parts of [0, count) and returns when all are done. All parts but the
  // last are multiples of `grain`. The caller does work of one grain or less alone. The parts
  // depend only on count, grain and the number of threads.
  template <typename Fn>
  void ParallelFor(int64_t count, int64_t grain, const Fn& fn) {
    if (threads_ == 1 || count <= grain) {
      if (count > 0) fn(int64_t{0}, count);
      return;
    }
    RunParts(count, grain, &fn, [](const void* f, int64_t begin, int64_t end) {
      (*static_cast<const Fn*>(f))(begin, end);
    });
  }

 private:
  using PartFn = void (*)(const void* fn, int64_t begin, int64_t end);
  struct Job {
    const void* fn = nullptr;
    PartFn call = nullptr;
    int64_t count = 0;
    int64_t part = 0;  // rows per thread
  };

  void RunParts(int64_t count, int64_t grain, const void* fn, PartFn call);
  void ThreadMain(int index);
  static void RunPart(const Job& job, int index);

  const int threads_;
  Mutex mu_;
  CondVar wake_;
  CondVar done_;
  Job job_ ABSL_GUARDED_BY(mu_);
  uint64_t job_number_ ABSL_GUARDED_BY(mu_) = 0;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_THREAD_POOL_H_
