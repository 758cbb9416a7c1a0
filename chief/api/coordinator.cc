#include "chief/api/coordinator.h"

#include <chrono>
#include <utility>

#include "chief/api/coordinator_impl.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/plugin/load_plugins.h"

namespace cohort {

ClusterCoordinator::ClusterCoordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterCoordinator::~ClusterCoordinator() = default;

absl::StatusOr<std::unique_ptr<ClusterCoordinator>> ClusterCoordinator::Start(
    const CoordinatorOptions& options) {
  absl::Status failed = LoadPlugins(options.plugins, options.log);
  auto impl = std::make_unique<Impl>(options);
  if (failed.ok()) failed = impl->Start();
  if (!failed.ok()) {
    if (options.on_failed_start) options.on_failed_start(failed);
    return failed;
  }
  return std::unique_ptr<ClusterCoordinator>(new ClusterCoordinator(std::move(impl)));
}

absl::Status ClusterCoordinator::CreateVariables(std::span<const v1::VariableSpec> variables,
                                                 std::span<const v1::OptimizerSpec> optimizers,
                                                 const v1::PartitionerSpec& partitioner,
                                                 std::string_view placement) {
  COHORT_RETURN_IF_ERROR(
      impl_->definition()->SetVariables(variables, optimizers, partitioner, placement));
  return impl_->restoration()->ResumeOrRestore();
}

absl::Status ClusterCoordinator::CreateVariables(std::span<const v1::VariableSpec> variables,
                                                 const v1::OptimizerSpec& optimizer,
                                                 const v1::PartitionerSpec& partitioner,
                                                 std::string_view placement) {
  return CreateVariables(variables, {&optimizer, 1}, partitioner, placement);
}

absl::StatusOr<StepFunction> ClusterCoordinator::RegisterStep(const Program& program) {
  return impl_->definition()->RegisterStep(program);
}

absl::StatusOr<PerWorkerDataset> ClusterCoordinator::CreatePerWorkerDataset(
    const v1::DatasetSpec& spec, const DatasetOptions& options) {
  return impl_->definition()->CreatePerWorkerDataset(spec, options);
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(StepFunction step,
                                                         std::vector<Tensor> arguments) {
  return impl_->Schedule({.step = step, .arguments = std::move(arguments)});
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(StepFunction step,
                                                         PerWorkerDataset dataset,
                                                         std::vector<Tensor> arguments) {
  return impl_->Schedule({.step = step, .dataset = dataset, .arguments = std::move(arguments)});
}

absl::StatusOr<RemoteValue> ClusterCoordinator::Schedule(ClosureSpec spec) {
  return impl_->Schedule(std::move(spec));
}

absl::Status ClusterCoordinator::Join() { return impl_->JoinUntil(CallWaits::kForever).status(); }

absl::StatusOr<bool> ClusterCoordinator::JoinFor(double seconds) {
  return impl_->JoinUntil(std::chrono::steady_clock::now() + FromSeconds(seconds));
}

absl::StatusOr<bool> ClusterCoordinator::Done() { return impl_->Done(); }

absl::Status ClusterCoordinator::Checkpoint(bool finished) {
  return impl_->checkpoints()->Take(finished).status();
}

absl::Status ClusterCoordinator::StartCheckpoint() { return impl_->checkpoints()->StartOne(); }

absl::StatusOr<std::string> ClusterCoordinator::CheckpointNow() {
  return impl_->checkpoints()->TakeUnlessFinished();
}

absl::Status ClusterCoordinator::SetMode(const ModeSettings& settings) {
  return impl_->SetMode(settings);
}

absl::Status ClusterCoordinator::Restore() { return impl_->restoration()->Restore(); }

absl::StatusOr<std::map<std::string, Tensor>> ClusterCoordinator::ReadVariables() {
  COHORT_ASSIGN_OR_RETURN(const std::string path, impl_->checkpoints()->Take(/*finished=*/false));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(path, {}));
  std::map<std::string, Tensor> out;
  for (const auto& [key, tensor] : reader->tensors()) {
    if (!key.second.empty()) continue;
    COHORT_ASSIGN_OR_RETURN(out[key.first], reader->Read(key.first, ""));
  }
  return out;
}

absl::Status ClusterCoordinator::Shutdown(const std::string& reason, bool job_finished) {
  return impl_->Shutdown(reason, job_finished);
}

void ClusterCoordinator::Close() { impl_->Close(); }
void ClusterCoordinator::Flush() { impl_->Flush(); }
void ClusterCoordinator::Interrupt() { impl_->Interrupt(); }
CoordinatorState ClusterCoordinator::state() const { return impl_->state(); }
v1::Layout ClusterCoordinator::layout() const { return impl_->definition()->layout(); }
std::string ClusterCoordinator::newest_checkpoint() const { return impl_->checkpoints()->newest(); }
std::vector<UnfinishedClosure> ClusterCoordinator::Unfinished() const {
  return impl_->Unfinished();
}
absl::Status ClusterCoordinator::EndEpoch() { return impl_->EndEpoch(); }

}  // namespace cohort
