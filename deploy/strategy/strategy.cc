#include "deploy/strategy/strategy.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/base/denormals.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/os/identity.h"
#include "deploy/strategy/strategy_tasks.h"
#include "proto/data.pb.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

constexpr size_t kMostAhead = 64;    // runs; their tensors are kept until they are finished
constexpr int kMostReplicas = 4096;  // as closures_per_step of the job file

}  // namespace

Strategy::Strategy(const StrategyClass& strategy, StrategyOptions options)
    : class_(strategy), options_(std::move(options)), variables_(options_.seed, options_.dtype) {}
Strategy::~Strategy() = default;

absl::StatusOr<std::unique_ptr<Strategy>> Strategy::Create(std::string_view name,
                                                           StrategyOptions options) {
  FlushDenormals();
  const StrategyClass* const found = FindStrategy(name);
  if (found == nullptr) {
    return UsageError("{}", NoStrategyText(name));
  }
  COHORT_RETURN_IF_ERROR(
      CheckBetween("num_replicas_in_sync", options.num_replicas_in_sync, 0, kMostReplicas));
  std::unique_ptr<Strategy> strategy(new Strategy(*found, std::move(options)));
  const absl::Status started = strategy->Start();
  if (!started.ok()) return Annotate(started, fmt::format("strategy {}", found->name));
  return strategy;
}

absl::Status Strategy::Start() {
  COHORT_ASSIGN_OR_RETURN(tasks_, StrategyTasks::Start(class_, options_));
  CoordinatorOptions coordinator = tasks_->coordinator_options();
  replicas_ = options_.num_replicas_in_sync > 0 ? options_.num_replicas_in_sync
                                                : coordinator.cluster.count(Role::kWorker);
  coordinator.job = "custom-loop";
  coordinator.seed = options_.seed;
  coordinator.plugins = options_.role.plugins;
  coordinator.mode = ConsistencyMode::kSync;
  coordinator.closures_per_step = static_cast<uint32_t>(replicas_);
  coordinator.deterministic =
      options_.deterministic ? Determinism::kRequired : Determinism::kWatched;
  if (options_.configure) options_.configure(&coordinator);
  COHORT_ASSIGN_OR_RETURN(coordinator_, ClusterCoordinator::Start(coordinator));
  return absl::OkStatus();
}

absl::StatusOr<DistributedStep> Strategy::Trace(std::string_view name, int64_t global_batch,
                                                const std::function<void(StepTrace*)>& step,
                                                StepMode mode) {
  const int64_t share = (global_batch + replicas_ - 1) / replicas_;
  COHORT_ASSIGN_OR_RETURN(const Program program, TraceStep(name, share, step, mode));
  DistributedStep traced{.name = std::string(name),
                         .training = !program.pushes.empty(),
                         .share = static_cast<uint64_t>(share)};
  std::vector<std::string> outputs;
  for (const Output& output : program.outputs) outputs.push_back(output.name);
  traced.outputs = std::make_shared<const std::vector<std::string>>(std::move(outputs));
  COHORT_ASSIGN_OR_RETURN(traced.function, coordinator_->RegisterStep(program));
  return traced;
}

absl::Status Strategy::CreateVariables(const KerasClass& optimizer,
                                       const VariablePartitioner& partitioner,
                                       std::string_view placement) {
  COHORT_RETURN_IF_ERROR(
      variables_.CreateOn(coordinator_.get(), optimizer, partitioner, placement));
  created_ = true;
  return absl::OkStatus();
}

absl::StatusOr<DistributedDataset> Strategy::DistributeDataset(const DatasetBuilder& dataset,
                                                               StepMode mode) {
  if (dataset.batch_size() == 0 || dataset.columns().empty()) {
    return InvalidArgument("the dataset has no batches: call Batch with a size and columns");
  }
  if (dataset.spec().repeat() != 0) {
    return InvalidArgument("the dataset repeats: call Epoch once for each pass instead of Repeat");
  }
  v1::DataSpec data;
  *data.mutable_train() = dataset.spec();
  const DataOptions reading{.data_dir = options_.data_dir, .threads = AvailableCores()};
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(&data, reading));
  COHORT_ASSIGN_OR_RETURN(const auto opened, Dataset::Open(data.train(), reading));
  const uint64_t batch = dataset.batch_size();
  const auto replicas = static_cast<uint64_t>(replicas_);
  DatasetOptions options;
  options.batch_size = static_cast<uint32_t>((batch + replicas - 1) / replicas);
  options.features = dataset.columns();
  options.exactly_once = true;
  options.seed = dataset.seed();
  options.data = &opened->fingerprint();
  options.training = mode == StepMode::kTrain;
  COHORT_ASSIGN_OR_RETURN(const PerWorkerDataset created,
                          coordinator_->CreatePerWorkerDataset(data.train(), options));
  return DistributedDataset(created, opened->num_records(), batch, replicas_);
}

absl::StatusOr<DistributedDataset> Strategy::DistributeDataset(const std::vector<Tensor>& columns,
                                                               uint64_t global_batch) {
  if (global_batch == 0) return InvalidArgument("the global batch has no examples");
  COHORT_ASSIGN_OR_RETURN(const DistributedBatch all, SplitBatch(columns, 1));
  return DistributedDataset(columns, all.examples(), global_batch, replicas_);
}

absl::Status Strategy::CheckRun(const DistributedStep& step, const DistributedBatch& batch) const {
  if (!created_) {
    return FailedPrecondition("step '{}': call CreateVariables before Run", step.name);
  }
  if (batch.shares.size() > static_cast<size_t>(replicas_)) {
    return InvalidArgument("step '{}': the batch has {} shares for {} replicas", step.name,
                           batch.shares.size(), replicas_);
  }
  for (const ReplicaShare& share : batch.shares) {
    if (share.examples() <= step.share) continue;
    return InvalidArgument(
        "step '{}': a replica would get {} examples, and the step takes at most {}: trace it with "
        "the global batch of the dataset",
        step.name, share.examples(), step.share);
  }
  return absl::OkStatus();
}

absl::StatusOr<PerReplica> Strategy::Run(const DistributedStep& step, const DistributedBatch& batch,
                                         const std::vector<Tensor>& arguments) {
  COHORT_RETURN_IF_ERROR(CheckRun(step, batch));
  if (batch.shares.empty()) return InvalidArgument("step '{}': the batch is empty", step.name);
  if (ahead_.size() >= kMostAhead) {
    ahead_.front().Fetch().IgnoreError();  // Schedule returns an error
    ahead_.pop_front();
  }
  std::vector<RemoteValue> values;
  for (const ReplicaShare& share : batch.shares) {
    ClosureSpec spec{.step = step.function,
                     .dataset = batch.dataset,
                     .arguments = share.columns,
                     .training = step.training};
    spec.arguments.insert(spec.arguments.end(), arguments.begin(), arguments.end());
    if (share.columns.empty()) spec.leases = {share.lease};
    COHORT_ASSIGN_OR_RETURN(RemoteValue value, coordinator_->Schedule(std::move(spec)));
    values.push_back(std::move(value));
  }
  ahead_.push_back(values.back());
  // An update that lacks shares is applied when somebody waits for it, and the shares of the next
  // Run must not complete it.
  const bool is_short = values.size() < static_cast<size_t>(replicas_);
  if (step.training && is_short) COHORT_RETURN_IF_ERROR(coordinator_->Join());
  return PerReplica(std::move(values), step.outputs);
}

absl::StatusOr<std::vector<StepResult>> Strategy::LocalResults(const PerReplica& results) {
  absl::StatusOr<std::vector<StepResult>> fetched = Fetch(results.values());
  if (fetched.ok()) return fetched;
  // The first error has cancelled the others. This call returns and clears it.
  COHORT_RETURN_IF_ERROR(coordinator_->Join());
  return fetched;
}

absl::StatusOr<std::vector<Tensor>> Strategy::LocalResults(const PerReplica& results,
                                                           std::string_view output) {
  COHORT_ASSIGN_OR_RETURN(const size_t index, results.FindOutput(output));
  COHORT_ASSIGN_OR_RETURN(std::vector<StepResult> fetched, LocalResults(results));
  std::vector<Tensor> values;
  for (StepResult& result : fetched) values.push_back(std::move(result.outputs[index]));
  return values;
}

absl::StatusOr<Tensor> Strategy::Reduce(ReduceOp op, const PerReplica& results,
                                        std::string_view output, std::optional<int> axis) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<Tensor> values, LocalResults(results, output));
  absl::StatusOr<Tensor> reduced = ReduceTensors(op, values, axis);
  if (reduced.ok()) return reduced;
  return Annotate(reduced.status(), fmt::format("output \"{}\"", output));
}

absl::StatusOr<std::vector<MetricState>> Strategy::ReduceMetrics(const PerReplica& results) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<StepResult> fetched, LocalResults(results));
  std::vector<MetricState> folded;
  for (const StepResult& result : fetched) FoldMetrics(result.metrics, &folded);
  return folded;
}

absl::Status Strategy::Shutdown(const std::string& reason) {
  return coordinator_->Shutdown(reason, /*job_finished=*/true);
}

}  // namespace cohort
