#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "chief/api/locked_core.h"
#include "chief/api/locked_core_test_util.h"
#include "common/base/clock_test_util.h"
#include "common/base/status.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

using testing::IdleCore;

// A number that one thread changes, and calls that wait for its value.
struct Waiting {
  explicit Waiting(const std::atomic<bool>* interrupt = nullptr) : waits(&clock, interrupt) {}

  // Runs `call` on another thread.
  template <typename Call>
  void Start(Call call) {
    thread = std::thread([this, call] {
      MutexLock lock(&mu);
      call();
      ended = true;
      ended_changed.SignalAll();
    });
  }
  // Returns when the call waits.
  void AwaitCall() {
    const auto limit = TestDeadline();
    while (true) {
      MutexLock lock(&mu);
      if (waits.Describe() == "a number") return;
      REQUIRE(std::chrono::steady_clock::now() < limit);
      ended_changed.WaitUntil(&mu, std::chrono::steady_clock::now() + std::chrono::milliseconds(2));
    }
  }
  absl::StatusOr<bool> Await(int wanted, TimePoint deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return waits.Wait(
        &mu, [this, wanted] { return number == wanted; }, deadline, [] { return "a number"; });
  }
  void Set(int value) {
    MutexLock lock(&mu);
    number = value;
    waits.Wake();
  }

  RealClock clock;
  Mutex mu;
  CondVar ended_changed;
  CallWaits waits;
  int number = 0;
  bool ended = false;
  std::thread thread;
};

TEST_CASE("a call ends when its condition holds") {
  Waiting w;
  absl::StatusOr<bool> result = Internal("not set");
  w.Start([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { result = w.Await(2, CallWaits::kForever); });
  w.AwaitCall();
  w.Set(1);  // does not concern the call
  {
    MutexLock lock(&w.mu);
    CHECK(!w.ended);
    CHECK(w.waits.Describe() == "a number");
  }
  w.Set(2);
  w.thread.join();
  CHECK(result.value());
  MutexLock lock(&w.mu);
  CHECK(w.waits.Describe().empty());
  CHECK(w.Await(2, TimePoint()).value());  // it holds already
}

TEST_CASE("a call returns false at its deadline") {
  Waiting w;
  MutexLock lock(&w.mu);
  CHECK(!w.Await(1, w.clock.Now() + std::chrono::milliseconds(5)).value());
  CHECK(!w.waits.WaitDespiteInterrupt(
      &w.mu, [] { return false; }, w.clock.Now() + std::chrono::milliseconds(5)));
}

TEST_CASE("an interrupt ends the calls that wait, and later ones, unless their condition holds") {
  std::atomic<bool> flag{false};
  Waiting w(&flag);
  absl::StatusOr<bool> result = true;
  w.Start([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { result = w.Await(1, CallWaits::kForever); });
  w.AwaitCall();
  {
    MutexLock lock(&w.mu);
    w.waits.CheckFlag();  // the flag is not set
    SECTION("by a call") { w.waits.Interrupt(); }
    SECTION("by the flag") {
      flag = true;
      w.waits.CheckFlag();
    }
  }
  w.thread.join();
  CHECK(absl::IsCancelled(result.status()));
  MutexLock lock(&w.mu);
  CHECK(absl::IsCancelled(w.Await(1, CallWaits::kForever).status()));
  CHECK(w.Await(0, CallWaits::kForever).value());
  CHECK(!w.waits.WaitDespiteInterrupt(
      &w.mu, [] { return false; }, w.clock.Now() + std::chrono::milliseconds(5)));
}

TEST_CASE("a wait is reported after 1 s, then every 3 s") {
  ManualClock clock;
  Mutex mu;
  CallWaits waits(&clock);
  MutexLock lock(&mu);
  const auto text = [] { return std::string("waiting for worker:2"); };
  clock.Advance(std::chrono::seconds(9));
  CHECK(waits.TakeReport(text).empty());  // no call waits
  int looks = 0;
  // The condition runs at once, while the call counts as waiting.
  const auto condition = [&] {
    ++looks;
    CHECK(waits.TakeReport([] { return std::string(); }).empty());  // it has nothing to report
    CHECK(waits.TakeReport(text).empty());
    clock.Advance(std::chrono::seconds(1));
    CHECK(waits.TakeReport(text) == "waiting for worker:2");
    clock.Advance(std::chrono::seconds(2));
    CHECK(waits.TakeReport(text).empty());
    clock.Advance(std::chrono::seconds(1));
    CHECK(waits.TakeReport(text) == "waiting for worker:2");
    return true;
  };
  CHECK(waits.Wait(&mu, condition, CallWaits::kForever).value());
  CHECK(looks == 1);
}

TEST_CASE("a call that waits for the core ends when the chief fails") {
  IdleCore idle;
  std::thread fail([&] {
    idle.core.Input([](CoordinatorCore* core) { core->FailForGood(Aborted("fenced")); });
  });
  {
    MutexLock lock(idle.core.mu());
    CHECK(idle.core.Wait([] { return false; }, CallWaits::kForever).value());
    CHECK(idle.core.failed());
    CHECK(idle.core.get()->TakeError() == Aborted("fenced"));
  }
  fail.join();
}

}  // namespace
}  // namespace cohort
