#ifndef COHORT_COMMON_COLLECTIVE_COLLECTIVE_H_
#define COHORT_COMMON_COLLECTIVE_COLLECTIVE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/tensor/dtype.h"

namespace cohort {

// A range of elements of a buffer.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

// The elements that rank `rank` owns among `elements`: the rank-th of `ranks` contiguous parts of
// ceil(elements / ranks) elements. The last parts may be shorter, or empty.
constexpr ElementRange PartOf(uint64_t elements, int ranks, int rank) {
  const uint64_t n = static_cast<uint64_t>(ranks);
  const uint64_t size = (elements + n - 1) / n;
  const uint64_t begin = std::min(elements, size * static_cast<uint64_t>(rank));
  return {begin, std::min(elements, begin + size)};
}

// The same for parts with given ends (CollectiveCall::part_ends); no ends: PartOf.
constexpr ElementRange PartAmong(std::span<const uint64_t> ends, uint64_t elements, int ranks,
                                 int rank) {
  if (ends.empty()) return PartOf(elements, ranks, rank);
  const size_t r = static_cast<size_t>(rank);
  return {r == 0 ? 0 : ends[r - 1], ends[r]};
}

// The memory of a buffer of float32 or float64, which belongs to the caller.
class ElementSpan {
 public:
  ElementSpan() = default;
  ElementSpan(std::span<float> values)  // NOLINT: converts
      : ElementSpan(DType::kFloat32, values.data(), values.size()) {}
  ElementSpan(std::span<double> values)  // NOLINT: converts
      : ElementSpan(DType::kFloat64, values.data(), values.size()) {}
  // `data` is aligned to the size of an element.
  ElementSpan(DType dtype, void* data, size_t elements)
      : dtype_(dtype), data_(static_cast<uint8_t*>(data)), elements_(elements) {}

  DType dtype() const { return dtype_; }
  uint64_t elements() const { return elements_; }
  uint64_t bytes() const { return elements_ * SizeOf(dtype_); }
  // The address of one element.
  uint8_t* at(uint64_t element) const { return data_ + element * SizeOf(dtype_); }

 private:
  DType dtype_ = DType::kFloat32;
  uint8_t* data_ = nullptr;
  uint64_t elements_ = 0;
};

// What an operation does to the buffers of the ranks.
enum class CollectiveKind : uint8_t {
  kReduceScatter,  // the owner's part of its buffer becomes the sum; other parts are unspecified
  kAllGather,      // every part of every buffer becomes the owner's part
  kAllReduce,      // every part of every buffer becomes the sum
};

// How the ranks exchange their parts; the values of `communication`.
enum class Communication : uint8_t { kAuto, kRing, kDirect, kNccl };
std::string_view CommunicationName(Communication communication);
// Also accepts TensorFlow's names (RING, NCCL, AUTO). Nullopt for an unknown name.
std::optional<Communication> CommunicationFromName(std::string_view name);

// Names one operation of each kind in a group. All ranks use the same names.
struct OperationName {
  uint64_t step = 0;
  uint64_t step_try = 0;
  uint32_t bucket = 0;

  auto operator<=>(const OperationName&) const = default;
  // "step 7, try 1, bucket 3".
  std::string ToString() const;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  OperationName name;
  // Input and output. Nobody else may use it until Wait returns. All ranks give the same number of
  // elements and the same dtype.
  ElementSpan buffer;
  // The order of a sum: the rank of each place. The sum is a left fold in this order, if the
  // algorithm is direct. A rank may have several places, or none. The same on all ranks. Empty: one
  // place per rank, in the order of the ranks.
  std::span<const int> order;
  // What this rank contributes: one buffer for each of its places, in their order. They are only
  // read, and one of them may be `buffer`. Empty: it has at most one place, and contributes
  // `buffer`.
  // Other algorithms than direct need one place per rank: sum the places of a rank first.
  std::span<const ElementSpan> contributions;
  // The owners' parts, if they are not those of PartOf: by rank the end of its part, which begins at
  // the end of the part before. The same on all ranks. Only read during Start.
  std::span<const uint64_t> part_ends;
  Communication communication = Communication::kAuto;
  // The operation fails if it makes no progress for so long.
  Duration deadline = std::chrono::seconds(60);
};

// Counts since the start of a group. Bytes are those of elements.
struct CollectiveCounters {
  uint64_t operations = 0;
  uint64_t bytes_sent = 0;    // to other ranks, in frames and in shared memory
  uint64_t bytes_shared = 0;  // those in shared memory
  uint64_t bytes_received = 0;
  uint64_t frames_dropped = 0;  // they did not fit, or their try was abandoned
  uint64_t chunks_early = 0;    // arrived before their operation was started here
  uint64_t allocations = 0;     // how often memory grew; constant in the steady state
};

// One rank of a group of replicas that exchange buffers. The group decides where the ranks are:
// LocalGroup has them in one process, CollectiveGroup in several.
//
// Start returns at once, so several buckets may be in flight. Operations make progress inside Start,
// Poll and Wait; one thread at a time may call them. All ranks start the same operations in the same
// order. They may wait in any order.
//
//   COHORT_ASSIGN_OR_RETURN(auto ticket, collective->Start({.kind = CollectiveKind::kReduceScatter,
//                                                           .name = {step, 1, 0},
//                                                           .buffer = std::span(gradients)}));
//   ...                                           // the backward pass continues
//   COHORT_RETURN_IF_ERROR(collective->Wait(ticket));
//   const ElementRange own = PartOf(gradients.size(), collective->ranks(), collective->rank());
//
// Errors of Wait: DeadlineExceeded if another replica does not take part, Unavailable if it is lost.
// Both have a FailureInfo with role, index and incarnation of the missing replica. The group has then
// failed: every operation ends with this error, and a new group needs a new epoch. Cancelled after
// Abandon.
class Collective {
 public:
  // Names a started operation.
  using Ticket = uint64_t;

  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;

  // Starts an operation. Errors: InvalidArgument (the call contradicts itself), Unimplemented
  // (`communication` is not available), AlreadyExists (the name is in flight), FailedPrecondition
  // (the try was abandoned), or the error with which the group has failed.
  virtual absl::StatusOr<Ticket> Start(const CollectiveCall& call) = 0;
  // Waits for the end of an operation. Its buffers belong to the caller again, whatever the result.
  // Once for each ticket.
  virtual absl::Status Wait(Ticket ticket) = 0;
  // Makes progress without waiting.
  virtual void Poll() = 0;
  // Ends all operations of this step with `step_try` or an older one. What other ranks send for them
  // is dropped. Each ticket still needs its Wait.
  virtual void Abandon(uint64_t step, uint64_t step_try) = 0;

  virtual CollectiveCounters counters() const = 0;

  // Start and Wait.
  absl::Status Run(const CollectiveCall& call);
  absl::Status ReduceScatter(ElementSpan buffer, OperationName name);
  absl::Status AllGather(ElementSpan buffer, OperationName name);
  absl::Status AllReduce(ElementSpan buffer, OperationName name);
};

// Checks what Start checks on every implementation: dtype, parts, order, contributions.
absl::Status CheckCollectiveCall(const CollectiveCall& call, int ranks, int rank);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_COLLECTIVE_H_
