#include "common/data/parquet/group_cache.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "common/testing/status_test_util.h"

namespace cohort {
namespace {

constexpr uint64_t kGroupBytes = 100;

GroupCache::Group GroupWith(uint8_t number) {
  return std::make_shared<const DecodedGroup>(
      DecodedGroup{.columns = {{number}}, .errors = {}, .bytes = kGroupBytes});
}

TEST_CASE("the groups that were used last are kept, and decoded once") {
  GroupCache cache(2 * kGroupBytes);
  std::vector<size_t> decoded;
  const auto get = [&](size_t number) {
    const auto group = cache.Get({nullptr, number}, [&]() -> absl::StatusOr<GroupCache::Group> {
      decoded.push_back(number);
      return GroupWith(static_cast<uint8_t>(number));
    });
    REQUIRE(group.ok());
    CHECK((*group)->columns[0][0] == number);
  };
  for (const size_t number : {0, 1, 0, 2, 0, 1}) get(number);
  CHECK(decoded == std::vector<size_t>{0, 1, 2, 1});
  CHECK(cache.bytes() == 2 * kGroupBytes);
  const auto failed = cache.Get(
      {nullptr, 7}, []() -> absl::StatusOr<GroupCache::Group> { return DataLoss("damaged"); });
  CHECK(testing::Message(failed.status()) == "damaged");
  get(7);
}

TEST_CASE("threads that decode the same groups count each of them once") {
  constexpr uint64_t kKept = 3;
  GroupCache cache(kKept * kGroupBytes);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 3000; ++i) {
        const size_t number = random() % 8;
        const auto group = cache.Get({nullptr, number}, [&]() -> absl::StatusOr<GroupCache::Group> {
          std::this_thread::yield();
          return GroupWith(static_cast<uint8_t>(number));
        });
        if (!group.ok() || (*group)->columns[0][0] != number) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(cache.bytes() == kKept * kGroupBytes);
}

}  // namespace
}  // namespace cohort
