#ifndef COHORT_DEPLOY_STRATEGY_STRATEGY_H_
#define COHORT_DEPLOY_STRATEGY_STRATEGY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/coordinator.h"
#include "chief/api/dataset_builder.h"
#include "chief/api/step_trace.h"
#include "chief/api/variable_set.h"
#include "common/metrics/metric_state.h"
#include "common/model/strategies.h"
#include "deploy/strategy/distributed_dataset.h"
#include "deploy/strategy/per_replica.h"
#include "deploy/strategy/strategy_options.h"

namespace cohort {

class StrategyTasks;

// A step that Strategy::Trace has made.
struct DistributedStep {
  StepFunction function;
  std::string name;
  bool training = false;
  uint64_t share = 0;                                       // the most examples of one replica
  std::shared_ptr<const std::vector<std::string>> outputs;  // their names
};

// A strategy of tf.distribute for a training loop of your own. The loop stays the same under each
// of them; the name chooses where the variables lie and which tasks compute (StrategyOptions):
//
//   COHORT_ASSIGN_OR_RETURN(const auto strategy, Strategy::Create("mirrored", {}));
//   const Model model = BuildModel(strategy->Scope(), {{"Dense", {{"units", 1}}}});
//   COHORT_ASSIGN_OR_RETURN(
//       const DistributedStep train, strategy->Trace("train", 32, [&](StepTrace* step) {
//         const Expr x = step->Input("x", DType::kFloat32, {1});
//         const Expr y = step->Input("y", DType::kFloat32, {1});
//         step->Output("loss", step->Minimize(Square(model(step, x) - y)));
//       }));
//   COHORT_RETURN_IF_ERROR(strategy->CreateVariables("SGD"));
//   COHORT_ASSIGN_OR_RETURN(const auto dataset, strategy->DistributeDataset({x, y}, 32));
//   for (const DistributedBatch& batch : dataset.Epoch(0)) {
//     COHORT_ASSIGN_OR_RETURN(const PerReplica losses, strategy->Run(train, batch));
//     COHORT_ASSIGN_OR_RETURN(const Tensor loss, strategy->Reduce(ReduceOp::kMean, losses,
//     "loss"));
//   }
//
// Training is synchronous: all replicas compute with the same values, and Minimize is one update by
// the mean of the losses of the whole global batch. Any free worker may compute a share, so
// "replica i" means the share, not the device.
//
// Errors. The first error of a step that a retry cannot help cancels the steps that wait.
// LocalResults, Reduce, ReduceMetrics or Run returns it once, and the loop may continue: the failed
// step has changed nothing. A lost worker is not an error. After the loss of an owner of variables
// (Unavailable), coordinator()->Restore() returns to the newest checkpoint.
//
// For one thread.
class Strategy {
 public:
  // `name`: one of ours ("mirrored") or of TensorFlow's ("MirroredStrategy"). Starts the tasks of
  // this process, and waits for the others. Errors: InvalidArgument for an unknown name; those of
  // StrategyTasks and ClusterCoordinator::Start.
  static absl::StatusOr<std::unique_ptr<Strategy>> Create(std::string_view name,
                                                          StrategyOptions options = {});
  // Ends the tasks of this process. Other tasks wait for the next loop.
  ~Strategy();

  std::string_view name() const { return class_.name; }
  // The shares of a global batch.
  int num_replicas_in_sync() const { return replicas_; }

  // Where models and layers declare their variables: `with strategy.scope()`.
  VariableSet* Scope() { return &variables_; }
  // Traces a step for one replica, as TraceStep does. Each replica computes with its share of
  // `global_batch` examples at most. Errors: those of TraceStep and of RegisterStep.
  absl::StatusOr<DistributedStep> Trace(std::string_view name, int64_t global_batch,
                                        const std::function<void(StepTrace*)>& step,
                                        StepMode mode = StepMode::kTrain);
  // Creates the variables of Scope(), or restores them from the newest checkpoint. Call it after
  // Trace, in which layers declare variables, and before Run. Errors: those of
  // VariableSet::CreateOn.
  absl::Status CreateVariables(const KerasClass& optimizer,
                               const VariablePartitioner& partitioner = {},
                               std::string_view placement = "");

  // A dataset whose batches are global, `Batch(global_batch, columns)`. The workers read it, and
  // this process, which counts the records. `mode` kEvaluate: without random transforms. Errors:
  // those of Dataset::Open and CreatePerWorkerDataset; InvalidArgument without Batch or with
  // Repeat.
  absl::StatusOr<DistributedDataset> DistributeDataset(const DatasetBuilder& dataset,
                                                       StepMode mode = StepMode::kTrain);
  // The rows of tensors, in their order. Errors: those of SplitBatch.
  absl::StatusOr<DistributedDataset> DistributeDataset(const std::vector<Tensor>& columns,
                                                       uint64_t global_batch);

  // Runs the step once on each replica with its share, and returns futures. The columns of the
  // batch are the first inputs of the step; `arguments` are the others, equal for all replicas.
  // Waits if the batch has fewer examples than there are replicas, or if 64 runs are ahead. Errors:
  // InvalidArgument if a share is larger than the step; FailedPrecondition before CreateVariables;
  // those of earlier steps, and of this one if it fails before all of its shares are scheduled.
  absl::StatusOr<PerReplica> Run(const DistributedStep& step, const DistributedBatch& batch,
                                 const std::vector<Tensor>& arguments = {});

  // Waits for the results of all replicas, in their order. As this process hears from all workers,
  // they are those of all workers.
  absl::StatusOr<std::vector<StepResult>> LocalResults(const PerReplica& results);
  // The same for one output.
  absl::StatusOr<std::vector<Tensor>> LocalResults(const PerReplica& results,
                                                   std::string_view output);
  // Waits for an output of all replicas, and folds it (ReduceTensors).
  absl::StatusOr<Tensor> Reduce(ReduceOp op, const PerReplica& results, std::string_view output,
                                std::optional<int> axis = std::nullopt);
  // Waits for the metrics of all replicas, "loss" of Minimize among them, and folds their states:
  // each example counts once.
  absl::StatusOr<std::vector<MetricState>> ReduceMetrics(const PerReplica& results);

  // For checkpoints, values of variables, recovery, and Join, which waits for all steps.
  ClusterCoordinator* coordinator() { return coordinator_.get(); }
  // Ends the job and all its tasks, also those of other processes. Errors: as
  // ClusterCoordinator::Shutdown.
  absl::Status Shutdown(const std::string& reason = "the loop is done");

 private:
  Strategy(const StrategyClass& strategy, StrategyOptions options);
  absl::Status Start();
  absl::Status CheckRun(const DistributedStep& step, const DistributedBatch& batch) const;

  const StrategyClass class_;
  const StrategyOptions options_;
  int replicas_ = 1;
  VariableSet variables_;
  bool created_ = false;           // the variables
  std::deque<RemoteValue> ahead_;  // the last share of each of the newest runs
  std::unique_ptr<StrategyTasks> tasks_;
  std::unique_ptr<ClusterCoordinator> coordinator_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_STRATEGY_STRATEGY_H_
