#include "common/checkpoint/lock_lease.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <future>

#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::TestDirectory;

DirectoryLock::Options LeaseOptions(const TestDirectory& dir, uint64_t incarnation) {
  return {.directory = dir.path(), .job = "job-1", .incarnation = incarnation};
}

TEST_CASE("a standby gets a lock that its holder lets go, and fences nobody") {
  const TestDirectory dir;
  auto first = DirectoryLock::Take(LeaseOptions(dir, 1));
  REQUIRE(first.ok());
  std::promise<std::string> holder;
  auto second = std::async(std::launch::async, [&] {
    return AwaitLock(LeaseOptions(dir, 2), {.silence = seconds(600),
                                            .poll = milliseconds(5),
                                            .waits = [&](const auto& h) { holder.set_value(h); }});
  });
  CHECK(testing::Contains(holder.get_future().get(), "process "));
  first->reset();
  const auto taken = second.get();
  REQUIRE(taken.ok());
  CHECK_FALSE(taken->took_over);
  CHECK(taken->lock->Check().ok());
}

TEST_CASE("a standby hears that a user has stopped the job, and a chief after it does not") {
  const TestDirectory dir;
  auto first = DirectoryLock::Take(LeaseOptions(dir, 1));
  REQUIRE(first.ok());
  (*first)->NoteStopped();
  CHECK((*first)->Check().ok());
  first->reset();
  auto second = AwaitLock(LeaseOptions(dir, 2), {});
  REQUIRE(second.ok());
  CHECK(second->lock->former_stopped());
  second->lock.reset();
  CHECK_FALSE((*DirectoryLock::Take(LeaseOptions(dir, 3)))->former_stopped());
}

TEST_CASE("a standby takes the lock of a holder that renews it no more") {
  const TestDirectory dir;
  std::shared_ptr<DirectoryLock> first = *DirectoryLock::Take(LeaseOptions(dir, 1));
  const auto taken =
      AwaitLock(LeaseOptions(dir, 2), {.silence = milliseconds(50), .poll = milliseconds(5)});
  REQUIRE(taken.ok());
  CHECK(taken->took_over);
  CHECK(absl::IsAborted(first->Check()));
  CHECK(taken->lock->Check().ok());
}

TEST_CASE("a holder that renews its lock keeps it, and a standby can be interrupted") {
  const TestDirectory dir;
  std::shared_ptr<DirectoryLock> first = *DirectoryLock::Take(LeaseOptions(dir, 1));
  const auto before = DirectoryLock::HolderOf(dir.path());
  REQUIRE((before.has_value() && before->renews));
  std::atomic<bool> interrupted{false};
  auto second = std::async(std::launch::async, [&] {
    return AwaitLock(LeaseOptions(dir, 2), {.silence = seconds(4), .interrupted = &interrupted});
  });
  {
    const LockLease lease(first);
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    int renewed = 0;
    for (auto last = before; renewed < 2;) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      const auto now = DirectoryLock::HolderOf(dir.path());
      if (now != last) ++renewed;
      last = now;
      std::this_thread::sleep_for(milliseconds(20));
    }
    CHECK(first->Check().ok());
    interrupted = true;
    CHECK(absl::IsCancelled(second.get().status()));
  }
  CHECK(first->Check().ok());
}

}  // namespace
}  // namespace cohort
