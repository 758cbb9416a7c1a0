#include "common/kernels/thread_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace cohort {
namespace {

TEST_CASE("every row is worked on once, whatever the number of threads") {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int64_t count : {0, 1, 7, 64, 65, 1000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      pool.ParallelFor(count, 8, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      REQUIRE(std::accumulate(hits.begin(), hits.end(), int64_t{0}) == count);
      REQUIRE(std::all_of(hits.begin(), hits.end(), [](int h) { return h == 1; }));
    }
  }
}

TEST_CASE("parts begin at multiples of the grain") {
  ThreadPool pool(3);
  std::atomic<bool> aligned{true};
  for (int repeat = 0; repeat < 200; ++repeat) {
    pool.ParallelFor(100, 16, [&](int64_t begin, int64_t) {
      if (begin % 16 != 0) aligned = false;
    });
  }
  REQUIRE(aligned);
}

TEST_CASE("small work stays on the caller's thread") {
  ThreadPool pool(4);
  std::thread::id ran;
  pool.ParallelFor(8, 8, [&](int64_t, int64_t) { ran = std::this_thread::get_id(); });
  REQUIRE(ran == std::this_thread::get_id());
}

}  // namespace
}  // namespace cohort
