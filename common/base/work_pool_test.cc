#include "common/base/work_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace cohort {
namespace {

TEST_CASE("each item runs once, whatever the helpers and the callers") {
  const int helpers = GENERATE(0, 1, 3);
  WorkPool pool(helpers);
  CHECK(pool.helpers() == helpers);
  constexpr size_t kItems = 64;
  constexpr int kRuns = 50;
  std::vector<std::thread> callers;
  std::vector<std::vector<std::atomic<int>>> counts(2);
  for (auto& count : counts) {
    count = std::vector<std::atomic<int>>(kItems);
    callers.emplace_back([&pool, &count] {
      for (int run = 0; run < kRuns; ++run) {
        pool.Run(kItems, [&](size_t i) { count[i].fetch_add(1, std::memory_order_relaxed); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& count : counts) {
    for (const auto& times : count) CHECK(times == kRuns);
  }
  pool.Run(0, [](size_t) { FAIL(); });
}

TEST_CASE("helpers take part, and the caller waits for what they have begun") {
  WorkPool pool(1);
  std::atomic<bool> helped = false;
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> done = 0;
  pool.Run(2, [&](size_t) {
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

}  // namespace
}  // namespace cohort
