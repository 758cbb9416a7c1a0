#include "tests/simulator/collective_plan.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "common/collective/choose.h"

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

// The order of the sum for each kind of job: that of the ranks, another one, or any places.
std::vector<int> DrawOrder(int ranks, Chance* chance) {
  std::vector<int> order;
  const uint64_t kind = chance->Below(4);
  if (kind == 0) {
    for (int64_t places = chance->Between(1, 2 * ranks); places > 0; --places) {
      order.push_back(static_cast<int>(chance->Below(static_cast<uint64_t>(ranks))));
    }
  } else if (kind == 1) {
    order.resize(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[chance->Below(i)]);
  }
  return order;
}

bool IsRing(const CollectivePlan& plan, const BucketPlan& bucket) {
  std::vector<float> memory(1);
  CollectiveCall call;
  call.kind = bucket.kind;
  call.buffer = ElementSpan(DType::kFloat32, memory.data(), bucket.elements);
  call.order = bucket.order;
  call.communication = bucket.communication;
  const auto algorithm = ChooseAlgorithm(call, plan.ranks);
  if (!algorithm.ok()) throw std::runtime_error(algorithm.status().ToString());
  return *algorithm == AlgorithmKind::kRing;
}

}  // namespace

CollectivePlan::CollectivePlan(uint64_t seed, CollectiveBug bug) : seed(seed), bug(bug) {
  Chance chance(seed ^ 0xC011EC71);
  ranks = static_cast<int>(chance.Between(2, 5));
  buckets = static_cast<uint32_t>(chance.Between(1, 4));
  // Chunks above 64 KB are lent to the transport, shorter ones are copied.
  const bool lends = chance.Percent(15);
  longest_buffer = lends ? 60'000 : static_cast<uint64_t>(chance.Between(1, 3000));
  chunk_bytes = lends ? 70'000 : longest_buffer * 4 / (1 + chance.Below(12)) + 40;
  early_bytes = chance.Below(3 * chunk_bytes);
  window_bytes = std::max(early_bytes, chunk_bytes) + chance.Below(4 * chunk_bytes);
  abandon_percent = chance.Percent(40) ? 25 : 0;
  compute_us = chance.Between(2'000, 40'000);
  restart_us = chance.Between(1'000, 300'000);
  faults_for_us = chance.Between(300, lends ? 1'000 : 3'000) * 1000;
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
      "{} % abandoned, compute {} us; faults per second for {} ms: kill {:.1f}, stream {:.1f}, "
      "message {:.1f}, cut {:.1f}, freeze {:.1f}, wedge {:.1f}",
      seed, ranks, buckets, longest_buffer, chunk_bytes, early_bytes, window_bytes, abandon_percent,
      compute_us, faults_for_us / 1000, faults.kill, faults.break_stream, faults.lose_message,
      faults.cut_network, faults.freeze, faults.wedge);
}

std::vector<uint32_t> BucketPlan::PlacesOf(int rank) const {
  if (order.empty()) return {static_cast<uint32_t>(rank)};
  std::vector<uint32_t> places;
  for (uint32_t place = 0; place < order.size(); ++place) {
    if (order[place] == rank) places.push_back(place);
  }
  return places;
}

BucketPlan BucketOf(const CollectivePlan& plan, const OperationName& name) {
  Chance chance = ChanceOf({plan.seed, name.step, name.bucket});
  BucketPlan bucket;
  bucket.kind = static_cast<CollectiveKind>(chance.Below(3));
  bucket.elements = chance.Percent(5) ? 0 : chance.Below(plan.longest_buffer + 1);
  const uint64_t communication = chance.Below(10);
  bucket.communication = communication < 4   ? Communication::kRing
                         : communication < 8 ? Communication::kDirect
                                             : Communication::kAuto;
  const bool ordered =
      bucket.kind != CollectiveKind::kAllGather && bucket.communication != Communication::kRing;
  if (ordered) bucket.order = DrawOrder(plan.ranks, &chance);
  return bucket;
}

bool IsAbandoned(const CollectivePlan& plan, uint64_t epoch, const OperationName& name) {
  return ChanceOf({plan.seed, epoch, name.step, name.step_try}).Percent(plan.abandon_percent);
}

std::vector<float> ContributionOf(uint64_t epoch, const OperationName& name, uint32_t place,
                                  uint64_t elements) {
  Chance chance = ChanceOf({epoch, name.step, name.step_try, name.bucket, place});
  std::vector<float> values(elements);
  // Numbers of different sizes, so that the order of a sum decides its bits.
  for (float& value : values) {
    const uint64_t bits = chance.Next();
    value = static_cast<float>(static_cast<int32_t>(bits)) / static_cast<float>(1U << (bits >> 59));
  }
  return values;
}

std::pair<std::vector<float>, ElementRange> ExpectedOf(const CollectivePlan& plan,
                                                       const BucketPlan& bucket, uint64_t epoch,
                                                       const OperationName& name, int rank) {
  const size_t places =
      bucket.order.empty() ? static_cast<size_t>(plan.ranks) : bucket.order.size();
  std::vector<std::vector<float>> contributions;
  for (uint32_t place = 0; place < places; ++place) {
    contributions.push_back(ContributionOf(epoch, name, place, bucket.elements));
  }
  const bool gathers_only = bucket.kind == CollectiveKind::kAllGather;
  const bool ring = IsRing(plan, bucket);
  std::vector<float> expected(bucket.elements);
  for (int owner = 0; owner < plan.ranks; ++owner) {
    const ElementRange part = PartOf(bucket.elements, plan.ranks, owner);
    for (uint64_t i = part.begin; i < part.end; ++i) {
      if (gathers_only) {
        expected[i] = contributions[static_cast<size_t>(owner)][i];
        continue;
      }
      // A ring begins with the rank after the owner (common/collective/ring.h).
      const size_t first = ring ? static_cast<size_t>(owner) + 1 : 0;
      expected[i] = contributions[first % places][i];
      for (size_t k = 1; k < places; ++k) expected[i] += contributions[(first + k) % places][i];
    }
  }
  const bool all = bucket.kind != CollectiveKind::kReduceScatter;
  return {std::move(expected),
          all ? ElementRange{0, bucket.elements} : PartOf(bucket.elements, plan.ranks, rank)};
}

}  // namespace cohort::simulator
