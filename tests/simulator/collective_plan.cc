#include "tests/simulator/collective_plan.h"

#include <algorithm>

namespace cohort::simulator {
namespace {

// The same for the same numbers.
Chance ChanceOf(std::initializer_list<uint64_t> numbers) {
  uint64_t state = 0;
  for (const uint64_t number : numbers) state = Chance(state ^ number).Next();
  return Chance(state);
}

CollectiveFaultRates DrawCollectiveFaults(Chance* chance) {
  CollectiveFaultRates rates;
  const auto draw = [chance](uint64_t percent, double least, double most) {
    if (!chance->Percent(percent)) return 0.0;
    return least + (most - least) * static_cast<double>(chance->Below(1000)) / 1000;
  };
  rates.kill = draw(35, 0.3, 3);
  rates.break_stream = draw(30, 0.3, 3);
  rates.lose_message = draw(30, 0.3, 3);
  rates.cut_network = draw(35, 0.3, 4);
  rates.freeze = draw(40, 0.3, 3);
  rates.wedge = draw(30, 0.2, 1);
  return rates;
}

}  // namespace

CollectivePlan::CollectivePlan(uint64_t seed, CollectiveBug bug) : seed(seed), bug(bug) {
  Chance chance(seed ^ 0xC011EC71);
  ranks = static_cast<int>(chance.Between(2, 5));
  buckets = static_cast<uint32_t>(chance.Between(1, 4));
  // Chunks of 2 KB and more are lent to the transport, shorter ones are copied.
  const bool large = chance.Percent(15);
  longest_buffer = large ? 60'000 : static_cast<uint64_t>(chance.Between(1, 3000));
  chunk_bytes = large ? 70'000 : longest_buffer * 4 / (1 + chance.Below(12)) + 40;
  early_bytes = chance.Below(3 * chunk_bytes);
  window_bytes = std::max(early_bytes, chunk_bytes) + chance.Below(4 * chunk_bytes);
  leave_percent = chance.Percent(40) ? 2 : 0;
  compute_us = chance.Between(2'000, 40'000);
  restart_us = chance.Between(1'000, 300'000);
  faults_for_us = chance.Between(300, large ? 1'000 : 3'000) * 1000;
  deadline = std::chrono::milliseconds(1000);
  start_deadline = std::chrono::milliseconds(3000);
  faults = DrawCollectiveFaults(&chance);
  // A cut ends a stream before half of the deadline, so that an answer is not late because of it.
  network.keepalive_us = 300'000;
  if (chance.Percent(30)) network.jitter_us = 3'000;
}

std::string CollectivePlan::Text() const {
  return fmt::format(
      "seed {}: {} ranks, {} buckets of up to {} elements, chunks of {} B, early {} B, window {} "
      "B, "
      "{} % left in flight, compute {} us; faults per second for {} ms: kill {:.1f}, stream "
      "{:.1f}, "
      "message {:.1f}, cut {:.1f}, freeze {:.1f}, wedge {:.1f}",
      seed, ranks, buckets, longest_buffer, chunk_bytes, early_bytes, window_bytes, leave_percent,
      compute_us, faults_for_us / 1000, faults.kill, faults.break_stream, faults.lose_message,
      faults.cut_network, faults.freeze, faults.wedge);
}

BucketPlan BucketOf(const CollectivePlan& plan, const OperationName& name) {
  Chance chance = ChanceOf({plan.seed, name.step, name.bucket});
  BucketPlan bucket;
  bucket.elements = chance.Percent(5) ? 0 : chance.Below(plan.longest_buffer + 1);
  for (int rank = 1; rank < plan.ranks; ++rank) {
    bucket.part_ends.push_back(chance.Below(bucket.elements + 1));
  }
  bucket.part_ends.push_back(bucket.elements);
  std::sort(bucket.part_ends.begin(), bucket.part_ends.end());
  return bucket;
}

std::vector<float> ContributionOf(uint64_t epoch, const OperationName& name, int rank,
                                  uint64_t elements) {
  Chance chance =
      ChanceOf({epoch, name.step, name.step_try, name.bucket, static_cast<uint64_t>(rank)});
  std::vector<float> values(elements);
  // Numbers of different sizes, so that the order of a sum decides its bits.
  for (float& value : values) {
    const uint64_t bits = chance.Next();
    value = static_cast<float>(static_cast<int32_t>(bits)) / static_cast<float>(1U << (bits >> 59));
  }
  return values;
}

// The sum begins with the rank after the owner (ReduceScatter).
std::vector<float> ExpectedOf(const CollectivePlan& plan, const BucketPlan& bucket, uint64_t epoch,
                              const OperationName& name, int rank) {
  std::vector<float> sum = ContributionOf(epoch, name, (rank + 1) % plan.ranks, bucket.elements);
  for (int k = 2; k <= plan.ranks; ++k) {
    const std::vector<float> next =
        ContributionOf(epoch, name, (rank + k) % plan.ranks, bucket.elements);
    for (uint64_t i = 0; i < bucket.elements; ++i) sum[i] += next[i];
  }
  return sum;
}

}  // namespace cohort::simulator
