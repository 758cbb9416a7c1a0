#ifndef COHORT_COMMON_DATA_BATCH_MAKER_H_
#define COHORT_COMMON_DATA_BATCH_MAKER_H_

#include <absl/status/status.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/work_pool.h"
#include "common/data/dataset.h"

namespace cohort {

// The common part of both readers: a dataset, the requested features, and the size of a batch.
class BatchMaker {
 public:
  // Errors: InvalidArgument (no batch size, an unknown feature).
  // `random_key`: of the random transforms of this reader's records.
  static absl::StatusOr<BatchMaker> Create(std::shared_ptr<const Dataset> dataset,
                                           const BatchReader::Options& options,
                                           uint64_t random_key);

  // Gathers the records `indices` of an epoch. Reuses the memory of `batch` if it can.
  absl::Status Make(uint64_t epoch, std::span<const uint64_t> indices,
                    BatchReader::Batch* batch) const;

  const Dataset& dataset() const { return *dataset_; }
  // Returns true if a thread makes batches before they are read.
  bool made_ahead() const { return made_ahead_; }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::vector<int> features_;
  bool made_ahead_ = false;
  bool training_ = false;
  uint64_t random_key_ = 0;
  std::unique_ptr<WorkPool> helpers_;  // null: the caller makes a batch alone
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_BATCH_MAKER_H_
