#ifndef COHORT_COMMON_COLLECTIVE_NCCL_GROUP_H_
#define COHORT_COMMON_COLLECTIVE_NCCL_GROUP_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/collective/collective.h"

namespace cohort {

// A group of ranks with one NVIDIA GPU each, whose buffers are in device memory. NCCL exchanges them.
// This file is compiled only if CMake has found NCCL (COHORT_NCCL).
//
// NCCL decides the order of a sum, so the bits may differ between runs. It does not report which rank
// is missing: the errors of Wait have no FailureInfo. A reduce-scatter and an all-gather need a
// multiple of `ranks` elements. Operations run on one stream of the device, in the order of Start.
class NcclGroup final : public Collective {
 public:
  struct Options {
    int rank = 0;
    int ranks = 1;
    std::string id;  // that rank 0 got from NewId
    int device = 0;  // CUDA's ordinal
  };

  // The name of a new group, for all of its ranks. Error: Unavailable, with NCCL's reason.
  static absl::StatusOr<std::string> NewId();
  // Waits until all ranks have called it. Errors: InvalidArgument, Unavailable.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Start(const Options& options);
  ~NcclGroup() override;

  int rank() const override;
  int ranks() const override;
  absl::StatusOr<Ticket> Start(const CollectiveCall& call) override;
  absl::Status Wait(Ticket ticket) override;
  void Poll() override {}
  // NCCL cannot end a single operation: this ends the group, if operations of the try are in flight.
  void Abandon(uint64_t step, uint64_t step_try) override;
  CollectiveCounters counters() const override;

 private:
  class Impl;
  explicit NcclGroup(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_NCCL_GROUP_H_
