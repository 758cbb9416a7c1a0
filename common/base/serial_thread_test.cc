#include "common/base/serial_thread.h"

#include <pthread.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace cohort {
namespace {

// A function that reports that it runs and waits to be released.
struct Gate {
  std::promise<void> reached;
  std::promise<void> open;
  std::function<void()> Function() {
    return [this] {
      reached.set_value();
      open.get_future().wait();
    };
  }
};

TEST_CASE("functions run one after another, on a thread of that name") {
  std::vector<int> order;
  std::string name;
  {
    SerialThread thread("a name that is much too long");
    thread.Post([&] {
      char buffer[32];
      pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
      name = buffer;
      thread.Post([&] { order.push_back(-1); });  // also from there
    });
    for (int i = 0; i < 100; ++i) thread.Post([&order, i] { order.push_back(i); });
  }
  REQUIRE(order.size() == 101);
  std::erase(order, -1);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
  CHECK(name == "a name that is ");
}

TEST_CASE("Finish runs what is queued, and what that posts") {
  Gate gate;
  std::vector<int> ran;
  SerialThread thread("test");
  thread.Post(gate.Function());
  thread.Post([&] {
    ran.push_back(1);
    thread.Post([&] { ran.push_back(2); });
  });
  gate.reached.get_future().wait();
  gate.open.set_value();
  thread.Finish();
  CHECK(ran == std::vector<int>{1, 2});
  thread.Post([&] { ran.push_back(3); });
  thread.Drop();  // it has ended
  CHECK(ran.size() == 2);
}

TEST_CASE("Drop waits for the running function and destroys the queued ones") {
  Gate gate;
  bool ran = false;
  const auto owned = std::make_shared<int>(7);
  SerialThread thread("test");
  thread.Post([function = gate.Function(), &thread, &ran] {
    function();
    thread.Post([&ran] { ran = true; });
  });
  thread.Post([owned, &ran] { ran = true; });
  gate.reached.get_future().wait();
  auto ended = std::async(std::launch::async, [&] { thread.Drop(); });
  while (owned.use_count() > 1) std::this_thread::yield();  // dropped while the first one runs
  gate.open.set_value();
  ended.get();
  CHECK(!ran);
}

TEST_CASE("DropUntil gives up if the running function does not return") {
  Gate gate;
  bool ran = false;
  SerialThread thread("test");
  thread.Post(gate.Function());
  thread.Post([&] { ran = true; });
  gate.reached.get_future().wait();
  CHECK_FALSE(thread.DropUntil(std::chrono::steady_clock::now()));
  CHECK_FALSE(thread.DropUntil(std::chrono::steady_clock::now()));
  gate.open.set_value();
  CHECK(thread.DropUntil(std::chrono::steady_clock::time_point::max()));
  CHECK(thread.DropUntil(std::chrono::steady_clock::now()));  // it has ended
  CHECK(!ran);
}

}  // namespace
}  // namespace cohort
