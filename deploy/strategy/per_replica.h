#ifndef COHORT_DEPLOY_STRATEGY_PER_REPLICA_H_
#define COHORT_DEPLOY_STRATEGY_PER_REPLICA_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chief/api/remote_value.h"
#include "common/tensor/tensor.h"

namespace cohort {

// tf.distribute.ReduceOp.
enum class ReduceOp { kSum, kMean };

// What one Run computes on each replica: futures, in the order of the replicas. Strategy waits for
// them in LocalResults, Reduce and ReduceMetrics. Copies share the results.
class PerReplica {
 public:
  PerReplica() = default;
  PerReplica(std::vector<RemoteValue> values,
             std::shared_ptr<const std::vector<std::string>> outputs)
      : values_(std::move(values)), outputs_(std::move(outputs)) {}

  // The replicas that had examples.
  size_t size() const { return values_.size(); }
  const std::vector<RemoteValue>& values() const { return values_; }
  // The position of an output in StepResult::outputs. Errors: InvalidArgument that lists the
  // outputs.
  absl::StatusOr<size_t> FindOutput(std::string_view name) const;

 private:
  std::vector<RemoteValue> values_;
  std::shared_ptr<const std::vector<std::string>> outputs_;  // names
};

// Folds the values of the replicas in their order, as tf.distribute.Strategy.reduce does. Without
// an axis the values have equal shapes, and so has the result. With axis 0 it also folds their
// rows, so the mean counts each row once, even if the replicas have different numbers of them. Sums
// are accumulated in float64 or int64. Errors: InvalidArgument for no values, different shapes or
// dtypes, another axis, a mean of integers, and other dtypes than floats, int32 and int64.
absl::StatusOr<Tensor> ReduceTensors(ReduceOp op, std::span<const Tensor> values,
                                     std::optional<int> axis = std::nullopt);

}  // namespace cohort

#endif  // COHORT_DEPLOY_STRATEGY_PER_REPLICA_H_
