#ifndef COHORT_COMMON_DATA_CONSTANT_MEMORY_TEST_UTIL_H_
#define COHORT_COMMON_DATA_CONSTANT_MEMORY_TEST_UTIL_H_

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/data/dataset.h"
#include "common/data/table_vector.h"
#include "proto/job.pb.h"

// For tests alone.
namespace cohort::testing {

inline constexpr uint64_t kLargeBytes = uint64_t{96} << 20;
// The memory that reading such a file may take.
inline constexpr uint64_t kMemoryBytes = kLargeBytes / 4;

// The memory of this process that is no page of a file.
inline uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    uint64_t kilobytes = 0;
    if (word == "RssAnon:" && status >> kilobytes) return kilobytes << 10;
  }
  FAIL("no RssAnon in /proc/self/status");
  return 0;
}

// Notes the most anonymous memory until it goes.
class MemoryWatch {
 public:
  MemoryWatch()
      : thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            most_ = std::max(most_.load(), AnonymousBytes());
            std::unique_lock lock(mu_);
            stopped_.wait_for(lock, stop, std::chrono::milliseconds(2), [] { return false; });
          }
        }) {}
  uint64_t Finish() {
    thread_.request_stop();
    thread_.join();
    return most_;
  }

 private:
  std::atomic<uint64_t> most_ = 0;
  std::mutex mu_;
  std::condition_variable_any stopped_;
  std::jthread thread_;
};

// Opens data and reads each record once, in another order.
inline void CheckConstantMemory(const v1::DatasetSpec& spec) {
  constexpr uint64_t kBatch = 512;
  SetTableMemoryLimitForTest(kMemoryBytes / 4);
  malloc_trim(0);
  const uint64_t before = AnonymousBytes();
  MemoryWatch watch;
  {
    const auto dataset = Dataset::Open(spec);
    INFO(dataset.status());
    REQUIRE(dataset.ok());
    std::vector<int> features;
    for (size_t f = 0; f < (*dataset)->features().size(); ++f)
      features.push_back(static_cast<int>(f));
    const uint64_t records = (*dataset)->num_records();
    // Blocks, as a job over a packed or a large file would shuffle.
    const EpochOrder order(records, /*block_size=*/4096, /*shuffle=*/true, /*seed=*/1);
    std::vector<uint64_t> lease;
    std::vector<Tensor> batch;
    for (uint64_t begin = 0; begin < records; begin += kBatch) {
      order.Records(/*epoch=*/0, begin, std::min(begin + kBatch, records), &lease);
      const absl::Status gathered = (*dataset)->Gather(lease, features, &batch);
      if (!gathered.ok()) FAIL(gathered);
    }
  }
  const uint64_t most = watch.Finish();
  SetTableMemoryLimitForTest(0);
  INFO("reading took " << (most - std::min(before, most)) / 1024 << " KB of memory");
  CHECK(most < before + kMemoryBytes);
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_DATA_CONSTANT_MEMORY_TEST_UTIL_H_
