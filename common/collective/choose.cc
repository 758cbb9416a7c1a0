#include "common/collective/choose.h"

#include "common/base/status.h"
#include "common/collective/direct.h"

namespace cohort {
namespace {

constexpr uint64_t kDirectPartBytes = uint64_t{256} << 10;
constexpr int kDirectRanks = 2;

// True if every rank has one place, in the order of the ranks or another one.
bool OnePlacePerRank(const CollectiveCall& call, int ranks) {
  if (call.order.empty()) return call.contributions.size() <= 1;
  if (call.order.size() != static_cast<size_t>(ranks)) return false;
  for (size_t i = 0; i < call.order.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (call.order[k] == call.order[i]) return false;
    }
  }
  return true;
}

// True if the only contribution is the buffer itself, which partial sums may overwrite.
bool ContributesBuffer(const CollectiveCall& call) {
  return call.contributions.empty() || call.contributions[0].at(0) == call.buffer.at(0);
}

}  // namespace

bool RingSavesBytes(uint64_t gradient_bytes, uint64_t closures, uint64_t replicas) {
  if (replicas < 2 || closures < 2 * replicas) return false;
  const double sent = static_cast<double>(gradient_bytes) * static_cast<double>(replicas - 1) /
                      static_cast<double>(replicas);
  const double saved = sent * (static_cast<double>(closures) / static_cast<double>(replicas) - 1);
  return saved >= static_cast<double>(kSavedBytes);
}

bool HasNccl() {
#ifdef COHORT_NCCL
  return true;
#else
  return false;
#endif
}

absl::Status CheckCommunication(Communication communication) {
  if (communication != Communication::kNccl) return absl::OkStatus();
  if (!HasNccl()) {
    return FailedPrecondition(
        "communication: nccl is not available, because this build was configured without NCCL "
        "(CMake's COHORT_NCCL); use communication: auto");
  }
  return FailedPrecondition(
      "communication: nccl exchanges the memory of GPUs, and these buffers are in host memory; use "
      "communication: auto");
}

absl::StatusOr<AlgorithmKind> ChooseAlgorithm(const CollectiveCall& call, int ranks) {
  COHORT_RETURN_IF_ERROR(CheckCommunication(call.communication));
  const bool simple = OnePlacePerRank(call, ranks) && ContributesBuffer(call);
  if (call.communication == Communication::kRing) {
    if (simple) return AlgorithmKind::kRing;
    return InvalidArgument(
        "{}: a ring needs one contribution per rank, in the buffer itself; sum "
        "the places of a rank first, or use direct",
        call.name.ToString());
  }
  const uint64_t places =
      call.order.empty() ? static_cast<uint64_t>(ranks) : uint64_t{call.order.size()};
  if (call.kind == CollectiveKind::kAllReduce &&
      places * call.buffer.bytes() <= ExchangeAlgorithm::kMostBytes) {
    return AlgorithmKind::kExchange;
  }
  if (call.communication == Communication::kDirect || !simple || ranks <= kDirectRanks) {
    return AlgorithmKind::kDirect;
  }
  const uint64_t part_bytes = call.buffer.bytes() / static_cast<uint64_t>(ranks);
  return part_bytes <= kDirectPartBytes ? AlgorithmKind::kDirect : AlgorithmKind::kRing;
}

}  // namespace cohort
