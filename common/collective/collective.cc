#include "common/collective/collective.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {

std::string_view CommunicationName(Communication communication) {
  switch (communication) {
    case Communication::kAuto:
      return "auto";
    case Communication::kRing:
      return "ring";
    case Communication::kDirect:
      return "direct";
    case Communication::kNccl:
      return "nccl";
  }
  return "invalid";
}

std::optional<Communication> CommunicationFromName(std::string_view name) {
  if (name == "auto" || name == "AUTO") return Communication::kAuto;
  if (name == "ring" || name == "RING") return Communication::kRing;
  if (name == "direct") return Communication::kDirect;
  if (name == "nccl" || name == "NCCL") return Communication::kNccl;
  return std::nullopt;
}

std::string OperationName::ToString() const {
  return fmt::format("step {}, try {}, bucket {}", step, step_try, bucket);
}

namespace {

absl::Status CheckParts(const CollectiveCall& call, int ranks) {
  const std::span<const uint64_t> ends = call.part_ends;
  if (ends.empty()) return absl::OkStatus();
  if (ends.size() == static_cast<size_t>(ranks) && std::is_sorted(ends.begin(), ends.end()) &&
      ends.back() == call.buffer.elements()) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: the ends of the parts do not divide {} elements among {} ranks",
                         call.name.ToString(), call.buffer.elements(), ranks);
}

}  // namespace

absl::Status CheckCollectiveCall(const CollectiveCall& call, int ranks, int rank) {
  COHORT_RETURN_IF_ERROR(CheckParts(call, ranks));
  if (!IsFloating(call.buffer.dtype())) {
    return InvalidArgument("{}: a collective of {}; only float32 and float64 are possible",
                           call.name.ToString(), DTypeName(call.buffer.dtype()));
  }
  if (call.kind == CollectiveKind::kAllGather) {
    if (call.order.empty() && call.contributions.empty()) return absl::OkStatus();
    return InvalidArgument("{}: an all-gather has no order and no contributions",
                           call.name.ToString());
  }
  size_t own_places = call.order.empty() ? 1 : 0;
  for (const int of : call.order) {
    if (of < 0 || of >= ranks) {
      return InvalidArgument("{}: the order names rank {} of {}", call.name.ToString(), of, ranks);
    }
    own_places += of == rank ? 1 : 0;
  }
  if (call.contributions.empty() && own_places <= 1) return absl::OkStatus();
  if (call.contributions.size() != own_places) {
    return InvalidArgument("{}: {} contributions for {} places of rank {}", call.name.ToString(),
                           call.contributions.size(), own_places, rank);
  }
  for (const ElementSpan& contribution : call.contributions) {
    if (contribution.elements() == call.buffer.elements() &&
        contribution.dtype() == call.buffer.dtype()) {
      continue;
    }
    return InvalidArgument("{}: a contribution of {} {} to a buffer of {} {}", call.name.ToString(),
                           contribution.elements(), DTypeName(contribution.dtype()),
                           call.buffer.elements(), DTypeName(call.buffer.dtype()));
  }
  return absl::OkStatus();
}

absl::Status Collective::Run(const CollectiveCall& call) {
  COHORT_ASSIGN_OR_RETURN(const Ticket ticket, Start(call));
  return Wait(ticket);
}

absl::Status Collective::ReduceScatter(ElementSpan buffer, OperationName name) {
  return Run({.kind = CollectiveKind::kReduceScatter, .name = name, .buffer = buffer});
}

absl::Status Collective::AllGather(ElementSpan buffer, OperationName name) {
  return Run({.kind = CollectiveKind::kAllGather, .name = name, .buffer = buffer});
}

absl::Status Collective::AllReduce(ElementSpan buffer, OperationName name) {
  return Run({.kind = CollectiveKind::kAllReduce, .name = name, .buffer = buffer});
}

}  // namespace cohort
