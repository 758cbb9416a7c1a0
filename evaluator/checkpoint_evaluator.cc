#include "evaluator/checkpoint_evaluator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/stable_bytes.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/data/fingerprint.h"
#include "common/model/callbacks/averages.h"
#include "common/model/model_builder.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

absl::Status CheckData(const Dataset& validation, const v1::Manifest& manifest,
                       const DataOptions& options) {
  if (!manifest.has_validation_data()) return absl::OkStatus();
  const std::string difference = DifferenceOf({validation.fingerprint(), "here"},
                                              {manifest.validation_data(), "at the chief"});
  if (difference.empty()) return absl::OkStatus();
  return InvalidArgument(
      "data.validation: {}; give the evaluator the files of the chief (COHORT_DATA_DIR is {} "
      "here)",
      difference, options.data_dir.empty() ? "not set" : options.data_dir);
}

// NotFound and DataLoss blame the checkpoint. For a missing or torn data file this function changes
// the code and keeps the exit code.
absl::Status NotOfCheckpoint(const absl::Status& status) {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  return WithExitCode(FailedPrecondition("{}", std::string(status.message())), ExitCodeOf(status));
}

}  // namespace

CheckpointEvaluator::CheckpointEvaluator(const Options& options) : options_(options) {}
CheckpointEvaluator::~CheckpointEvaluator() = default;

absl::Status CheckpointEvaluator::OpenJob(const v1::Manifest& manifest) {
  v1::JobSpec spec = manifest.job_spec();
  std::string key = StableBytes(spec) + StableBytes(manifest.validation_data());
  if (job_ != nullptr && job_->key == key) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(UpgradeJob(manifest.job_yaml(), &spec));
  if (!spec.data().validation().has_source_class()) {
    return FailedPrecondition(
        "job '{}' has no validation set: give it data.validation to evaluate its checkpoints",
        spec.name());
  }
  auto job = std::make_unique<Job>();
  job->key = std::move(key);
  v1::DataSpec data = spec.data();
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(&data, options_.data));
  v1::DatasetSpec* validation = data.mutable_validation();
  validation->set_shuffle(false);
  validation->set_drop_remainder(false);
  COHORT_ASSIGN_OR_RETURN(job->dataset, Dataset::Open(*validation, options_.data));
  COHORT_RETURN_IF_ERROR(CheckData(*job->dataset, manifest, options_.data));
  if (IsUnweighted(*validation)) spec.mutable_data()->mutable_train()->clear_sample_weight();
  COHORT_ASSIGN_OR_RETURN(BuiltModel model, BuildModel(spec, job->dataset->features()));
  BatchReader::Options reader;
  COHORT_ASSIGN_OR_RETURN(reader.features, job->dataset->FindFeatures(model.eval_features));
  job->batch_size = std::max<uint32_t>(1, data.batch_size());
  job->averages = UsesOfAveragesIn(spec).evaluation;
  reader.batch_size = job->batch_size;
  reader.threads = options_.data.threads;
  COHORT_ASSIGN_OR_RETURN(job->reader, BatchReader::Leased(job->dataset, *validation, reader));
  COHORT_ASSIGN_OR_RETURN(job->model,
                          RestoredModel::Create(std::move(model.eval), options_.threads));
  job_ = std::move(job);
  batch_ = {};
  return absl::OkStatus();
}

absl::Status CheckpointEvaluator::RunBatch(uint64_t begin, uint64_t end) {
  COHORT_RETURN_IF_ERROR(job_->reader->Read(0, begin, end, &batch_));
  COHORT_RETURN_IF_ERROR(job_->model->Run(batch_.tensors));
  metrics_.Add(job_->model->executable());
  return absl::OkStatus();
}

absl::StatusOr<CheckpointEvaluator::Evaluation> CheckpointEvaluator::Evaluate(
    const std::string& manifest) {
  const auto begin = std::chrono::steady_clock::now();
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(manifest, CheckpointReader::Options()));
  const v1::Manifest& read = reader->manifest();
  COHORT_RETURN_IF_ERROR(NotOfCheckpoint(OpenJob(read)));
  COHORT_RETURN_IF_ERROR(
      Annotate(job_->model->Restore(*reader, job_->averages, options_.on_progress), manifest));
  metrics_.Clear();
  const uint64_t records = job_->dataset->num_records();
  for (uint64_t at = 0; at < records; at += job_->batch_size) {
    job_->reader->Announce(0, at, std::min(records, at + job_->batch_size));
  }
  for (uint64_t at = 0; at < records; at += job_->batch_size) {
    COHORT_RETURN_IF_ERROR(NotOfCheckpoint(RunBatch(at, std::min(records, at + job_->batch_size))));
    if (options_.on_progress) options_.on_progress();
  }
  Evaluation evaluation;
  evaluation.record.set = "validation";
  evaluation.record.kind = "checkpoint";
  // Epochs count from 1. A checkpoint in the middle of an epoch has metrics or closures of it.
  const bool mid_epoch = read.chief().metrics_size() > 0 || read.chief().pending_size() > 0;
  evaluation.record.epoch = read.epoch() + (mid_epoch ? 1 : 0);
  evaluation.record.step = read.step();
  for (const MetricState& metric : metrics_.States(job_->model->executable().program())) {
    evaluation.record.metrics.emplace_back(metric.name, metric.Value());
  }
  evaluation.record.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  evaluation.examples = records;
  evaluation.finished = read.finished();
  return evaluation;
}

}  // namespace cohort
