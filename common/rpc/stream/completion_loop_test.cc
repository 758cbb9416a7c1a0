#include "common/rpc/stream/completion_loop.h"

#include <catch2/catch.hpp>
#include <future>
#include <thread>
#include <vector>

#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a poll without events ends at its deadline") {
  CompletionLoop loop;
  const auto begin = CompletionLoop::Clock::now();
  CHECK_FALSE(loop.PollOnce(begin + milliseconds(20)));
  CHECK(CompletionLoop::Clock::now() >= begin + milliseconds(20));
  CHECK_FALSE(loop.PollOnce(begin));  // a deadline in the past polls once
  CHECK_FALSE(loop.RunUntil([] { return false; }, begin));
  CHECK(loop.RunUntil([] { return true; }, begin));
}

TEST_CASE("posted functions run on the polling thread, in the order of the calls") {
  CompletionLoop loop;
  std::vector<int> order;
  std::thread other([&] {
    for (int i = 0; i < 100; ++i) {
      loop.Post([&order, &loop, i] {
        CHECK(loop.OnPollingThread());
        order.push_back(i);
      });
    }
  });
  CHECK(loop.RunUntil([&] { return order.size() == 100; }, TestDeadline()));
  other.join();
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  CHECK_FALSE(loop.OnPollingThread());
}

TEST_CASE("a posted function may post another") {
  CompletionLoop loop;
  bool second = false;
  loop.Post([&] { loop.Post([&] { second = true; }); });
  CHECK(loop.RunUntil([&] { return second; }, TestDeadline()));
}

TEST_CASE("timers run in the order of their times, on both kinds of loop") {
  CompletionLoop loop;
  const bool own_thread = GENERATE(false, true);
  if (own_thread) loop.Start("timers");
  std::vector<int> order;
  std::promise<void> done;
  auto finished = done.get_future();
  loop.After(milliseconds(30), [&] {
    order.push_back(3);
    done.set_value();
  });
  loop.After(milliseconds(1), [&] { order.push_back(1); });
  loop.After(milliseconds(15), [&] { order.push_back(2); });
  const auto canceled = loop.After(milliseconds(10), [&] { order.push_back(9); });
  // The first timers may have run on the loop's own thread already; the one after 10 ms hardly.
  const bool in_time = loop.CancelTimer(canceled);
  if (own_thread) {
    REQUIRE(finished.wait_for(TestLimit()) == std::future_status::ready);
  } else {
    REQUIRE(in_time);
    REQUIRE(loop.RunUntil([&] { return order.size() == 3; }, TestDeadline()));
  }
  loop.Shutdown();
  if (in_time) CHECK(order == std::vector<int>{1, 2, 3});
  CHECK_FALSE(loop.CancelTimer(canceled));
}

TEST_CASE("a timer from another thread shortens a running poll") {
  CompletionLoop loop;
  bool ran = false;
  std::thread other([&] { loop.After(milliseconds(5), [&] { ran = true; }); });
  CHECK(loop.RunUntil([&] { return ran; }, TestDeadline()));
  other.join();
}

TEST_CASE("Wake ends a poll, and many wakes cost one event") {
  CompletionLoop loop;
  std::atomic<bool> flag{false};
  std::thread other([&] {
    flag = true;
    for (int i = 0; i < 1000; ++i) loop.Wake();
  });
  CHECK(loop.RunUntil([&] { return flag.load(); }, TestDeadline()));
  other.join();
  loop.Wake();
  CHECK(loop.PollOnce(TestDeadline()));
}

TEST_CASE("after Shutdown nothing runs and nothing crashes") {
  CompletionLoop loop;
  if (GENERATE(false, true)) loop.Start("ends");
  auto ran = std::make_shared<std::atomic<int>>(0);
  loop.After(std::chrono::hours(1), [ran] { ++*ran; });
  loop.Shutdown();
  loop.Post([ran] { ++*ran; });
  loop.After(milliseconds(0), [ran] { ++*ran; });
  loop.Wake();
  CHECK_FALSE(loop.PollOnce(TestDeadline()));
  loop.Shutdown();
  CHECK(*ran == 0);
  CHECK(ran.use_count() == 1);  // what was dropped is destroyed
}

}  // namespace
}  // namespace cohort
