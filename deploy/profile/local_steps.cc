#include "deploy/profile/local_steps.h"

#include <chrono>

#include "common/base/status.h"
#include "common/model/data_check.h"
#include "common/model/job_file.h"
#include "common/model/model_builder.h"
#include "common/tensor/philox.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

TimePoint Now() { return std::chrono::steady_clock::now(); }

Dims DimsOf(const ValueType& type) {
  Dims dims;
  for (const Dim& dim : type.dims) dims.push_back(dim.size);
  return dims;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalSteps>> LocalSteps::Open(const std::string& path,
                                                             const DataOptions& data,
                                                             CompileOptions compile,
                                                             bool on_device) {
  if (on_device && compile.devices.size() != 1) {
    return InvalidArgument("variables can live on one device alone, but --devices names {}",
                           compile.devices.empty() ? "the CPU" : "several");
  }
  COHORT_ASSIGN_OR_RETURN(JobFile job, ReadJobFile(path));
  std::unique_ptr<LocalSteps> steps(new LocalSteps());
  steps->batch_size_ = static_cast<int64_t>(job.spec.data().batch_size());
  steps->seed_ = job.spec.seed();
  // The servers clip in mode sync, and there are none here.
  job.spec.mutable_strategy()->set_mode("async");
  std::vector<FeatureType> features;
  auto dataset = OpenTraining(data, &job.spec);
  absl::Status opened = dataset.status();
  if (opened.ok()) {
    steps->dataset_ = *std::move(dataset);
    COHORT_RETURN_IF_ERROR(CheckInputs(job, *steps->dataset_));
    COHORT_RETURN_IF_ERROR(StepsPerEpoch(job, steps->dataset_->num_records()).status());
    if (steps->dataset_->num_records() < job.spec.data().batch_size()) {
      return InvalidArgument(
          "the first file of the stream has {} records, fewer than a batch of {}",
          steps->dataset_->num_records(), job.spec.data().batch_size());
    }
    features = steps->dataset_->features();
  } else if (absl::IsNotFound(opened)) {
    steps->no_data_ = std::string(opened.message());
    COHORT_ASSIGN_OR_RETURN(features, DeclaredFeatures(job.spec));
  } else {
    return Annotate(std::move(opened), job.lines.Where("data.train"));
  }
  COHORT_ASSIGN_OR_RETURN(BuiltModel model, BuildModel(job.spec, features, &job.lines));
  for (const v1::OptimizerSpec& optimizer : model.optimizers) {
    COHORT_ASSIGN_OR_RETURN(steps->rules_.emplace_back(), OptimizerRule::Create(optimizer));
  }
  COHORT_ASSIGN_OR_RETURN(steps->variables_,
                          LocalVariables::Create(model.variables, model.optimizers));
  if (on_device) {
    steps->copies_ = DeviceCopies::On(compile.devices);
    compile.variables = steps->copies_.readers[0].get();
    COHORT_RETURN_IF_ERROR(steps->variables_->tablet()->Reside(steps->copies_));
  }
  steps->CountUpdateBytes(model);
  if (steps->dataset_ != nullptr) {
    COHORT_RETURN_IF_ERROR(steps->OpenReader(job.spec.data().train(), model.features));
  }
  COHORT_ASSIGN_OR_RETURN(steps->executable_, Executable::Compile(std::move(model.train), compile));
  if (steps->dataset_ == nullptr) steps->MakeUpBatch();
  COHORT_ASSIGN_OR_RETURN(
      steps->access_,
      steps->variables_->ForProgram(steps->program(), steps->executable_->device_parts()));
  return steps;
}

// A rule reads and writes values and slots, and reads the gradient.
void LocalSteps::CountUpdateBytes(const BuiltModel& model) {
  for (const Push& push : model.train.pushes) {
    const auto& variable = model.variables[static_cast<size_t>(push.variable)];
    if (push.kind != PushKind::kGradient || !variable.trainable()) continue;
    const OptimizerRule& rule = *rules_[variable.optimizer()];
    const ValueType& gradient = model.train.type(push.value);
    const ValueType& whole = model.train.variables[static_cast<size_t>(push.variable)].type;
    const bool rows = push.keys != kNoValue && rule.touches_only_keys();
    const auto size = static_cast<double>(SizeOf(gradient.dtype));
    const double moved = static_cast<double>(CapacityElements(rows ? gradient : whole)) * size;
    update_bytes_ += moved * 2 * (1 + static_cast<double>(rule.slots().size()));
    update_bytes_ += static_cast<double>(CapacityElements(gradient)) * size;
  }
}

absl::Status LocalSteps::OpenReader(const v1::DatasetSpec& train,
                                    std::span<const std::string> features) {
  BatchReader::Options options;
  COHORT_ASSIGN_OR_RETURN(options.features, dataset_->FindFeatures(features));
  options.batch_size = static_cast<uint32_t>(batch_size_);
  options.prefetch = train.prefetch();
  options.seed = seed_;
  options.training = true;
  COHORT_ASSIGN_OR_RETURN(reader_, BatchReader::Leased(dataset_, train, options));
  return absl::OkStatus();
}

void LocalSteps::MakeUpBatch() {
  for (const ProgramArgument& argument : program().arguments) {
    const ValueType& type = program().type(argument.value);
    Tensor tensor = Tensor::Zeros(type.dtype, DimsOf(type));
    const auto count = static_cast<uint64_t>(tensor.num_elements());
    for (uint64_t i = 0; i < count; ++i) {
      const double value = UniformFromBits(PhiloxMix(seed_, i));
      if (type.dtype == DType::kFloat32) {
        tensor.mutable_values<float>()[i] = static_cast<float>(value);
      } else if (type.dtype == DType::kFloat64) {
        tensor.mutable_values<double>()[i] = value;
      }
    }
    batch_.tensors.push_back(std::move(tensor));
  }
  if (program().loss_scaling.enabled()) batch_.tensors.pop_back();  // Run adds the loss scale
  batch_.records = batch_size_;
}

absl::Status LocalSteps::Run(StepProfile* profile) {
  const TimePoint begin = Now();
  if (reader_ != nullptr) {
    const auto batch = static_cast<uint64_t>(batch_size_);
    const uint64_t per_epoch = dataset_->num_records() / batch;
    const uint64_t first = step_ % per_epoch * batch;
    const uint64_t next = (step_ + 1) % per_epoch * batch;
    COHORT_RETURN_IF_ERROR(reader_->Read(step_ / per_epoch, first, first + batch, &batch_));
    reader_->Announce((step_ + 1) / per_epoch, next, next + batch);
  }
  arguments_.assign(batch_.tensors.begin(), batch_.tensors.end());
  const LossScaling& scaling = program().loss_scaling;
  if (scaling.enabled()) {
    arguments_.push_back(Tensor::Scalar(static_cast<float>(scaling.initial)));
  }
  COHORT_RETURN_IF_ERROR(executable_->Bind(arguments_));
  const TimePoint bound = Now();
  COHORT_RETURN_IF_ERROR(executable_->Prepare({seed_, step_, 0}));
  const TimePoint prepared = Now();
  const PullBatch pull{.place = step_, .items = executable_->pulls()};
  COHORT_RETURN_IF_ERROR(access_->Exchange(nullptr, &pull).status());
  const TimePoint pulled = Now();
  COHORT_RETURN_IF_ERROR(executable_->Run());
  const TimePoint ran = Now();
  PushBatch push;
  push.stamp.closure = step_ + 1;
  push.stamp.place = step_;
  push.stamp.weight = executable_->weight();
  push.items = executable_->pushes();
  COHORT_RETURN_IF_ERROR(access_->Exchange(&push, nullptr).status());
  const TimePoint pushed = Now();
  ++step_;
  profile->AddPhase("data", begin, bound);
  profile->AddPhase("keys", bound, prepared);
  profile->AddPhase("weights", prepared, pulled);
  profile->AddPhase("kernels", pulled, ran);
  profile->AddPhase("optimizer", ran, pushed);
  profile->AddStep(begin, pushed);
  return absl::OkStatus();
}

}  // namespace cohort
