#ifndef COHORT_COMMON_RPC_PUSH_PULL_CODEC_COUNTERS_H_
#define COHORT_COMMON_RPC_PUSH_PULL_CODEC_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace cohort {

// Counts of what the codec did, for tests and benchmarks. Many codecs and threads may share one.
struct CodecCounters {
  std::atomic<int64_t> frames_encoded{0};
  std::atomic<int64_t> frames_decoded{0};
  std::atomic<int64_t> bytes_shared{0};   // payload sent by reference
  std::atomic<int64_t> bytes_inlined{0};  // payload of small pieces, copied into the header's slice
  std::atomic<int64_t> bytes_copied{0};   // payload copied out by views and cursors
  std::atomic<int64_t> bytes_placed{0};   // payload copied into memory that both ends share
  std::atomic<int64_t> bytes_in_place{0};  // payload that a server reads where the client has it
  std::atomic<int64_t> allocations{0};     // how often the codec's memory grew
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_CODEC_COUNTERS_H_
