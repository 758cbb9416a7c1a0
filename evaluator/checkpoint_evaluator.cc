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
#include "common/optimizers/optimizer_rules.h"
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

// No optimizer updates them here, so they have no slots.
absl::StatusOr<std::unique_ptr<LocalVariables>> VariablesOf(const Program& program) {
  std::vector<v1::VariableSpec> specs;
  for (const VariableDecl& decl : program.variables) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name(decl.name);
    spec.set_dtype(static_cast<v1::DType>(decl.type.dtype));
    for (const Dim& dim : decl.type.dims) spec.add_dims(dim.size);
    spec.mutable_initializer()->set_class_name("Zeros");
  }
  return LocalVariables::Create(specs, {});
}

}  // namespace

std::string SlotToRead(const CheckpointReader& reader, const std::string& variable, bool averages) {
  return averages && reader.Find(variable, kAverageSlot) != nullptr ? kAverageSlot : "";
}

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
  COHORT_ASSIGN_OR_RETURN(job->variables, VariablesOf(model.eval));
  CompileOptions compile;
  compile.intra_op_threads = options_.threads;
  COHORT_ASSIGN_OR_RETURN(job->executable, Executable::Compile(std::move(model.eval), compile));
  COHORT_ASSIGN_OR_RETURN(job->access, job->variables->ForProgram(job->executable->program()));
  job_ = std::move(job);
  batch_ = {};
  return absl::OkStatus();
}

absl::Status CheckpointEvaluator::Restore(const CheckpointReader& reader) {
  return job_->variables->tablet()->Fill(
      [&](const ShardInfo& shard, int, int64_t row, int64_t rows, std::span<uint8_t> out) {
        if (options_.on_progress) options_.on_progress();
        return reader.ReadRows(shard.variable, SlotToRead(reader, shard.variable, job_->averages),
                               shard.dtype, static_cast<uint64_t>(row), static_cast<uint64_t>(rows),
                               out);
      });
}

absl::Status CheckpointEvaluator::RunBatch(uint64_t begin, uint64_t end) {
  Executable& executable = *job_->executable;
  COHORT_RETURN_IF_ERROR(job_->reader->Read(0, begin, end, &batch_));
  COHORT_RETURN_IF_ERROR(executable.Bind(batch_.tensors));
  COHORT_RETURN_IF_ERROR(executable.Prepare(RandomKey{}));
  const PullBatch pull{0, 0, executable.pulls()};
  COHORT_RETURN_IF_ERROR(job_->access->Exchange(nullptr, &pull).status());
  COHORT_RETURN_IF_ERROR(executable.Run());
  metrics_.Add(executable);
  return absl::OkStatus();
}

absl::StatusOr<CheckpointEvaluator::Evaluation> CheckpointEvaluator::Evaluate(
    const std::string& manifest) {
  const auto begin = std::chrono::steady_clock::now();
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(manifest, CheckpointReader::Options()));
  const v1::Manifest& read = reader->manifest();
  COHORT_RETURN_IF_ERROR(NotOfCheckpoint(OpenJob(read)));
  COHORT_RETURN_IF_ERROR(Annotate(Restore(*reader), manifest));
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
  for (const MetricState& metric : metrics_.States(job_->executable->program())) {
    evaluation.record.metrics.emplace_back(metric.name, metric.Value());
  }
  evaluation.record.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  evaluation.examples = records;
  evaluation.finished = read.finished();
  return evaluation;
}

}  // namespace cohort
