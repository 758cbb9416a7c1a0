#include "evaluator/checkpoint_evaluation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/model/model_builder.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<CheckpointEvaluation>> CheckpointEvaluation::Create(
    const v1::Manifest& manifest, const Options& options) {
  const v1::JobSpec& job = manifest.job_spec();
  if (!job.data().has_validation()) {
    return FailedPrecondition(
        "the job of this checkpoint has no validation set: add `data.validation` to its job file");
  }
  std::unique_ptr<CheckpointEvaluation> self(new CheckpointEvaluation());
  self->job_ = manifest.job();
  self->options_ = options;
  self->batch_size_ = job.data().batch_size();
  COHORT_ASSIGN_OR_RETURN(self->dataset_,
                          Dataset::Open(job.data().validation(), {.data_dir = options.data_dir}));
  COHORT_ASSIGN_OR_RETURN(const BuiltModel model, BuildModel(job, self->dataset_->features()));
  COHORT_ASSIGN_OR_RETURN(self->features_, self->dataset_->FindFeatures(model.features));
  COHORT_ASSIGN_OR_RETURN(self->executable_,
                          Executable::Compile(model.eval, {.intra_op_threads = options.threads}));
  return self;
}

absl::StatusOr<EvaluationResult> CheckpointEvaluation::Evaluate(
    const CheckpointReader& checkpoint) {
  const auto start = std::chrono::steady_clock::now();
  COHORT_RETURN_IF_ERROR(Load(checkpoint));
  const size_t metrics = executable_->program().metrics.size();
  totals_.assign(metrics, 0);
  counts_.assign(metrics, 0);
  const uint64_t records = dataset_->num_records();
  for (uint64_t begin = 0; begin < records; begin += batch_size_) {
    if (options_.should_stop && options_.should_stop())
      return Cancelled("the evaluation was stopped");
    COHORT_RETURN_IF_ERROR(RunBatch(begin, std::min(records, begin + batch_size_)));
  }
  EvaluationResult result;
  result.step = checkpoint.manifest().step();
  result.epoch = checkpoint.manifest().epoch();
  result.examples = records;
  for (size_t i = 0; i < metrics; ++i) {
    const double mean = counts_[i] == 0 ? 0 : totals_[i] / counts_[i];
    result.metrics.emplace_back(executable_->program().metrics[i].name, mean);
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

absl::Status CheckpointEvaluation::Load(const CheckpointReader& checkpoint) {
  auto variables = std::make_unique<LocalVariables>(nullptr);
  for (const VariableDecl& variable : executable_->program().variables) {
    COHORT_ASSIGN_OR_RETURN(Tensor value, checkpoint.Read(variable.name, ""));
    COHORT_RETURN_IF_ERROR(variables->Add(variable.name, std::move(value)));
  }
  COHORT_ASSIGN_OR_RETURN(access_, LocalAccess::Create(variables.get(), executable_->program()));
  variables_ = std::move(variables);
  return absl::OkStatus();
}

absl::Status CheckpointEvaluation::RunBatch(uint64_t begin, uint64_t end) {
  indices_.resize(end - begin);
  std::iota(indices_.begin(), indices_.end(), begin);
  COHORT_RETURN_IF_ERROR(dataset_->Gather(indices_, features_, &batch_));
  COHORT_RETURN_IF_ERROR(executable_->Bind(batch_));
  COHORT_RETURN_IF_ERROR(executable_->Prepare(RandomKey{}));
  const PullBatch pull{.place = 0, .ordinal = 0, .items = executable_->pulls()};
  COHORT_RETURN_IF_ERROR(access_->Exchange(nullptr, &pull).status());
  COHORT_RETURN_IF_ERROR(executable_->Run());
  for (size_t i = 0; i < totals_.size(); ++i) {
    totals_[i] += executable_->metric_totals()[i];
    counts_[i] += executable_->metric_counts()[i];
  }
  return absl::OkStatus();
}

}  // namespace cohort
