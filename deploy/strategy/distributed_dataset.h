#ifndef COHORT_DEPLOY_STRATEGY_DISTRIBUTED_DATASET_H_
#define COHORT_DEPLOY_STRATEGY_DISTRIBUTED_DATASET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "chief/core/closure_spec.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The examples of one replica in a global batch: positions of an epoch that a worker reads itself,
// or rows of tensors. Not empty.
struct ReplicaShare {
  LeaseRange lease;             // if the batch has a dataset
  std::vector<Tensor> columns;  // else: [examples, ...] each
  uint64_t examples() const;
};

// A global batch, split evenly over the replicas: the shares differ by one example at most. A batch
// that has fewer examples than there are replicas has fewer shares.
struct DistributedBatch {
  PerWorkerDataset dataset;  // none: the shares have tensors
  std::vector<ReplicaShare> shares;
  uint64_t examples() const;
};

// Splits the rows of `columns`, which share their memory with the batch. Errors: InvalidArgument
// for no column, no rows, or columns of different lengths.
absl::StatusOr<DistributedBatch> SplitBatch(const std::vector<Tensor>& columns, int replicas);

class DatasetPass;

// A dataset in global batches, each example in one of them. Strategy::DistributeDataset makes it.
//
//   for (const DistributedBatch& batch : dataset.Epoch(0)) { ... strategy->Run(step, batch) ... }
class DistributedDataset {
 public:
  // Records that workers read. `records`: of an epoch.
  DistributedDataset(PerWorkerDataset dataset, uint64_t records, uint64_t global_batch,
                     int replicas);
  // Rows of tensors of equal lengths, in their order.
  DistributedDataset(std::vector<Tensor> columns, uint64_t records, uint64_t global_batch,
                     int replicas);

  uint64_t records() const { return records_; }
  uint64_t batches() const { return (records_ + global_batch_ - 1) / global_batch_; }
  // The batches of one pass. A shuffled dataset has another order in every epoch.
  DatasetPass Epoch(uint64_t epoch) const;
  // `index` < batches(). The last batch may be shorter.
  DistributedBatch Batch(uint64_t epoch, uint64_t index) const;

 private:
  PerWorkerDataset dataset_;
  std::vector<Tensor> columns_;
  uint64_t records_;
  uint64_t global_batch_;
  int replicas_;
};

// The batches of one epoch, in order: the range of a range-for.
class DatasetPass {
 public:
  class Iterator {
   public:
    Iterator(const DatasetPass* pass, uint64_t index) : pass_(pass), index_(index) {}
    DistributedBatch operator*() const { return pass_->dataset_.Batch(pass_->epoch_, index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const DatasetPass* pass_;
    uint64_t index_;
  };

  DatasetPass(DistributedDataset dataset, uint64_t epoch)
      : dataset_(std::move(dataset)), epoch_(epoch) {}
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, dataset_.batches()}; }

 private:
  DistributedDataset dataset_;
  uint64_t epoch_;
};

inline DatasetPass DistributedDataset::Epoch(uint64_t epoch) const { return {*this, epoch}; }

}  // namespace cohort

#endif  // COHORT_DEPLOY_STRATEGY_DISTRIBUTED_DATASET_H_
