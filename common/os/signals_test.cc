#include "common/os/signals.h"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

namespace cohort {
namespace {

TEST_CASE("a waiter sees signals, and the end") {
  auto waiter = SignalWaiter::Start();
  REQUIRE(waiter.ok());
  REQUIRE_FALSE((*waiter)->WaitFor(std::chrono::milliseconds(1)).has_value());

  kill(getpid(), SIGTERM);
  REQUIRE((*waiter)->Wait() == SIGTERM);
  kill(getpid(), SIGINT);
  REQUIRE((*waiter)->WaitFor(std::chrono::seconds(60)) == SIGINT);
  raise(SIGPIPE);  // ignored; otherwise it would end this process
  raise(SIGXFSZ);

  std::thread other([&] { (*waiter)->NotifyDone(); });
  REQUIRE((*waiter)->Wait() == 0);
  other.join();
  REQUIRE((*waiter)->Wait() == 0);  // stays done
  kill(getpid(), SIGTERM);
  REQUIRE((*waiter)->Wait() == SIGTERM);  // a signal takes precedence over the end
}

TEST_CASE("an ignored SIGINT stays ignored, SIGTERM never does") {
  REQUIRE_FALSE(IsIgnored(SIGINT));
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  REQUIRE(IsIgnored(SIGINT));
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);  // the waiter of another case has blocked it
  auto waiter = SignalWaiter::Start();
  REQUIRE(waiter.ok());
  kill(getpid(), SIGINT);
  kill(getpid(), SIGTERM);
  REQUIRE((*waiter)->Wait() == SIGTERM);
  REQUIRE_FALSE((*waiter)->WaitFor(std::chrono::milliseconds(1)).has_value());
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
}

TEST_CASE("Wake ends one wait, and signals and the end still arrive") {
  auto waiter = SignalWaiter::Start();
  REQUIRE(waiter.ok());
  std::thread other([&] { (*waiter)->Wake(); });
  REQUIRE_FALSE((*waiter)->WaitFor(std::chrono::hours(24 * 365)).has_value());
  other.join();
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE_FALSE((*waiter)->WaitFor(std::chrono::milliseconds(20)).has_value());
  REQUIRE(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));

  (*waiter)->Wake();
  kill(getpid(), SIGTERM);
  REQUIRE((*waiter)->WaitFor(std::chrono::hours(1)) == SIGTERM);
  (*waiter)->NotifyDone();
  REQUIRE((*waiter)->WaitFor(std::chrono::hours(1)) == 0);
  REQUIRE((*waiter)->Wait() == 0);
}

}  // namespace
}  // namespace cohort
