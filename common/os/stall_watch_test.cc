#include "common/os/stall_watch.h"

#include <catch2/catch.hpp>
#include <future>
#include <string>
#include <thread>

#include "common/base/clock_test_util.h"
#include "common/os/thread_stacks.h"

namespace cohort {
namespace {

using std::chrono::seconds;

TEST_CASE("the loop that has stood still for the longest time counts") {
  ManualClock clock;
  StallWatch watch(&clock);
  CHECK(watch.due());
  watch.Look({0, 1});  // it sees them for the first time
  CHECK(watch.longest() == seconds(0));
  CHECK_FALSE(watch.due());
  for (uint64_t second = 2; second < 12; ++second) {
    clock.Advance(seconds(1));
    CHECK(watch.due());
    watch.Look({second, 1});
  }
  CHECK(watch.longest() == seconds(10));
  clock.Advance(seconds(1));
  watch.Look({12, 2});
  CHECK(watch.longest() == seconds(0));
}

TEST_CASE("the time in which the process was stopped does not count") {
  ManualClock clock;
  StallWatch watch(&clock);
  watch.Look({1});
  clock.Advance(seconds(3600));
  watch.Look({1});
  CHECK(watch.longest() <= seconds(2));
}

// A function with a name that a stack can show.
__attribute__((noinline)) void HangsUntil(std::promise<void>* there, std::future<void> over) {
  there->set_value();
  over.wait();
  asm volatile("");  // no tail call
}

TEST_CASE("the stacks of other threads name their functions") {
  std::promise<void> there, over;
  std::thread hung([&] { HangsUntil(&there, over.get_future()); });
  there.get_future().wait();
  const std::string stacks = StacksOfOtherThreads();
  over.set_value();
  hung.join();
  INFO(stacks);
  CHECK(stacks.find("HangsUntil") != std::string::npos);
}

}  // namespace
}  // namespace cohort
