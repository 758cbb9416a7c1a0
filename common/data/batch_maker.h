#ifndef COHORT_COMMON_DATA_BATCH_MAKER_H_
#define COHORT_COMMON_DATA_BATCH_MAKER_H_

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/data/dataset.h"

namespace cohort {

// The common part of both readers: a dataset, the requested features, and the size of a batch.
class BatchMaker {
 public:
  // Errors: InvalidArgument (no batch size, an unknown feature).
  static absl::StatusOr<BatchMaker> Create(std::shared_ptr<const Dataset> dataset,
                                           const BatchReader::Options& options);

  // Gathers the records `indices`. Reuses the memory of `batch` if it can.
  absl::Status Make(std::span<const uint64_t> indices, BatchReader::Batch* batch) const {
    batch->records = static_cast<int64_t>(indices.size());
    return dataset_->Gather(indices, features_, &batch->tensors);
  }

  const Dataset& dataset() const { return *dataset_; }
  // Returns true if a thread makes batches before they are read.
  bool made_ahead() const { return made_ahead_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int> features_;
  bool made_ahead_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_BATCH_MAKER_H_
