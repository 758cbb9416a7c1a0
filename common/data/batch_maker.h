#ifndef COHORT_COMMON_DATA_BATCH_MAKER_H_
#define COHORT_COMMON_DATA_BATCH_MAKER_H_

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/data/dataset.h"

namespace cohort {

// What both readers share: a dataset, the asked features, and how big their batches are.
class BatchMaker {
 public:
  // Errors: InvalidArgument (no batch size, a feature that is not there).
  static absl::StatusOr<BatchMaker> Create(std::shared_ptr<const Dataset> dataset,
                                           const BatchReader::Options& options);

  // Gathers `indices`, into the memory that `batch` has where it can.
  absl::Status Make(std::span<const uint64_t> indices, BatchReader::Batch* batch) const {
    batch->records = static_cast<int64_t>(indices.size());
    return dataset_->Gather(indices, features_, &batch->tensors);
  }

  const Dataset& dataset() const { return *dataset_; }
  // Whether batches are made in a thread, ahead of who reads them.
  bool made_ahead() const { return made_ahead_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int> features_;
  bool made_ahead_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_BATCH_MAKER_H_
