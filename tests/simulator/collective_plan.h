#ifndef COHORT_TESTS_SIMULATOR_COLLECTIVE_PLAN_H_
#define COHORT_TESTS_SIMULATOR_COLLECTIVE_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/collective/reduce_scatter.h"
#include "tests/simulator/network.h"

namespace cohort::simulator {

inline int64_t MicrosOf(Duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

// A bug that a test plants in every rank (CollectiveTestFaults), to prove that the simulator finds
// it.
enum class CollectiveBug : uint8_t {
  kNone,
  kTakesAnyEpoch,
  kDropsEarlyCredit,
  kNamesItsSender,
  kReturnsLentBuffers,
};

// How often each fault happens during the time of faults: events per second of virtual time, for
// all ranks together.
struct CollectiveFaultRates {
  double kill = 0;
  double break_stream = 0;
  double lose_message = 0;  // a message of a stream, and the stream with it
  double cut_network = 0;
  double freeze = 0;
  double wedge = 0;  // the next pause of a rank between two buckets exceeds the deadline

  double total() const { return kill + break_stream + lose_message + cut_network + freeze + wedge; }
};

// What a seed stands for: ranks that exchange the buckets of one step after another, and their
// faults.
struct CollectivePlan {
  explicit CollectivePlan(uint64_t seed, CollectiveBug bug = CollectiveBug::kNone);

  uint64_t seed = 0;
  CollectiveBug bug = CollectiveBug::kNone;
  int ranks = 2;
  uint32_t buckets = 1;         // that a step has
  uint64_t longest_buffer = 0;  // elements
  uint64_t chunk_bytes = 0;     // as in CollectiveGroupOptions, like the next two
  uint64_t early_bytes = 0;
  uint64_t window_bytes = 0;
  uint64_t leave_percent = 0;  // share of tries in which a rank leaves with buckets in flight
  int64_t compute_us = 0;      // the longest pause before a bucket
  int64_t restart_us = 0;      // the longest time until a dead process is started again
  int64_t faults_for_us = 0;
  Duration deadline{};        // for an operation
  Duration start_deadline{};  // for a group
  CollectiveFaultRates faults;
  NetworkShape network;

  std::string Text() const;
};

// The arguments of one operation. All ranks derive the same ones.
struct BucketPlan {
  uint64_t elements = 0;
  std::vector<uint64_t> part_ends;  // as in ReduceScatterCall
};

BucketPlan BucketOf(const CollectivePlan& plan, const OperationName& name);

// What a rank adds. Other epochs, tries, buckets and ranks have other values.
std::vector<float> ContributionOf(uint64_t epoch, const OperationName& name, int rank,
                                  uint64_t elements);
// The bits that the own part of a rank has after the operation.
std::vector<float> ExpectedOf(const CollectivePlan& plan, const BucketPlan& bucket, uint64_t epoch,
                              const OperationName& name, int rank);

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_COLLECTIVE_PLAN_H_
