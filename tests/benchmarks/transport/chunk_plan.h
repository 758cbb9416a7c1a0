#ifndef COHORT_TESTS_BENCHMARKS_TRANSPORT_CHUNK_PLAN_H_
#define COHORT_TESTS_BENCHMARKS_TRANSPORT_CHUNK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

// What is to be sent: `units` (elements of a dense entry, rows of a sparse one) of `bytes_per_unit`
// (the element's size; of a row: key and values) each. A unit is never cut.
struct ChunkItem {
  uint64_t units = 0;
  uint64_t bytes_per_unit = 0;
};

// Units [begin, begin + count) of an item, the `begin` and `count` of a PushEntry or PulledEntry.
struct ChunkPart {
  uint32_t item = 0;
  uint64_t begin = 0;
  uint64_t count = 0;
};

// Cuts a large request or answer into messages of one sequence, all but the last with `more`: the
// receiver works on one while the next is on its way. Items keep their order; small ones share a
// message; an item without units keeps its place as a part without units.
class ChunkPlan {
 public:
  // Measured: 1 to 2 MB is best on loopback and unix sockets (tests/benchmarks/transport).
  static constexpr size_t kTargetBytes = size_t{1} << 20;

  // Plans messages of at most `target_bytes` of payload, but at least one unit. Replaces the plan
  // and reuses its memory. There is always one message at least.
  void Plan(std::span<const ChunkItem> items, size_t target_bytes = kTargetBytes);

  size_t message_count() const { return ends_.size(); }
  // index < message_count().
  std::span<const ChunkPart> message(size_t index) const;
  bool is_last(size_t index) const { return index + 1 == ends_.size(); }

 private:
  std::vector<ChunkPart> parts_;
  std::vector<size_t> ends_;  // into parts_, of each message
};

}  // namespace cohort

#endif  // COHORT_TESTS_BENCHMARKS_TRANSPORT_CHUNK_PLAN_H_
