#include "common/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>
#include <vector>

namespace cohort {
namespace {

TEST_CASE("each item runs once, whatever the threads and the callers") {
  const int threads = GENERATE(1, 2, 4);
  ThreadPool pool(threads);
  CHECK(pool.threads() == threads);
  constexpr size_t kItems = 64;
  constexpr int kRuns = 50;
  std::vector<std::thread> callers;
  std::vector<std::vector<std::atomic<int>>> counts(2);
  for (auto& count : counts) {
    count = std::vector<std::atomic<int>>(kItems);
    callers.emplace_back([&pool, &count] {
      for (int run = 0; run < kRuns; ++run) {
        pool.ForEach(kItems, [&](size_t i) { count[i].fetch_add(1, std::memory_order_relaxed); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& count : counts) {
    for (const auto& times : count) CHECK(times == kRuns);
  }
  pool.ForEach(0, [](size_t) { FAIL(); });
}

TEST_CASE("helpers take part, and the caller waits for what they have begun") {
  ThreadPool pool(2);
  std::atomic<bool> helped = false;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> done = 0;
  pool.ForEach(2, [&](size_t) {
    if (std::this_thread::get_id() != caller) {
      helped = true;
    } else {
      while (!helped) std::this_thread::yield();  // the other item is the helper's
    }
    ++done;
  });
  CHECK(helped);
  CHECK(done == 2);
}

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
