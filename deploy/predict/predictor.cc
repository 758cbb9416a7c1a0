#include "deploy/predict/predictor.h"

#include <algorithm>

#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/data/dataset.h"
#include "common/model/callbacks/averages.h"
#include "common/model/model_builder.h"
#include "common/os/identity.h"
#include "deploy/predict/prediction_data.h"
#include "evaluator/restored_model.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// Inputs may leave their shape to the data.
void GiveShapes(const Dataset& data, v1::ModelSpec* model) {
  for (v1::LayerSpec& layer : *model->mutable_layers()) {
    if (layer.class_name() != "Input") continue;
    v1::ConfigValue& shape = (*layer.mutable_config())["shape"];
    if (shape.list().values_size() > 0) continue;
    const auto named = layer.config().find("feature");
    const std::string& name = named == layer.config().end() || named->second.s().empty()
                                  ? layer.name()
                                  : named->second.s();
    std::vector<int64_t> dims = {1};
    for (const FeatureType& feature : data.features()) {
      if (feature.name == name && !feature.dims.empty()) dims = feature.dims;
    }
    shape = ConfigOf(dims);
  }
}

// The columns of the data, and then the labels and weights that the job names, which no prediction
// reads.
absl::StatusOr<std::vector<FeatureType>> FeaturesFor(const v1::JobSpec& job, const Dataset& data) {
  const std::vector<std::string> targets = TargetsOf(job.data().train());
  std::vector<FeatureType> features;
  for (const FeatureType& feature : data.features()) {
    if (std::find(targets.begin(), targets.end(), feature.name) == targets.end()) {
      features.push_back(feature);
    }
  }
  v1::JobSpec shaped = job;
  GiveShapes(data, shaped.mutable_model());
  COHORT_ASSIGN_OR_RETURN(const std::vector<FeatureType> declared, DeclaredFeatures(shaped));
  for (const FeatureType& feature : declared) {
    if (std::find(targets.begin(), targets.end(), feature.name) != targets.end()) {
      features.push_back(feature);
    }
  }
  return features;
}

// What tells two checkpoints apart, wherever they lie.
std::string StateOf(const v1::Manifest& manifest) {
  return fmt::format("step {} of the job {} (cut {}.{}.{})", manifest.step(), manifest.job(),
                     manifest.timeline(), manifest.generation(), manifest.cut());
}

std::vector<PredictionColumn> ColumnsOf(const Program& program) {
  std::vector<PredictionColumn> columns;
  for (const Output& output : program.outputs) {
    const ValueType& type = program.values[static_cast<size_t>(output.value)];
    PredictionColumn& column = columns.emplace_back(PredictionColumn{output.name, type.dtype, {}});
    for (size_t axis = 1; axis < type.dims.size(); ++axis) {
      column.dims.push_back(type.dims[axis].size);
    }
  }
  return columns;
}

}  // namespace

Predictor::Predictor() = default;
Predictor::~Predictor() = default;

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Open(const std::string& checkpoint,
                                                           const PredictOptions& options) {
  std::unique_ptr<Predictor> predictor(new Predictor());
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(checkpoint, {}));
  v1::JobSpec job = reader->manifest().job_spec();
  COHORT_RETURN_IF_ERROR(UpgradeJob(reader->manifest().job_yaml(), &job));
  DataOptions data_options;
  data_options.data_dir = options.data_dir;
  data_options.threads = options.threads > 0 ? options.threads : AvailableCores();
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(job.mutable_data(), data_options));
  COHORT_ASSIGN_OR_RETURN(const v1::DatasetSpec spec, RecordsToPredict(job, options.data));
  COHORT_ASSIGN_OR_RETURN(predictor->dataset_, Dataset::Open(spec, data_options));
  COHORT_ASSIGN_OR_RETURN(const auto features, FeaturesFor(job, *predictor->dataset_));
  COHORT_ASSIGN_OR_RETURN(BuiltModel built, BuildModel(job, features));

  // `features` names the labels last.
  const std::vector<std::string> inputs(
      built.features.begin(),
      built.features.begin() + static_cast<int64_t>(built.predict.arguments.size()));
  BatchReader::Options reading;
  COHORT_ASSIGN_OR_RETURN(reading.features, predictor->dataset_->FindFeatures(inputs));
  predictor->batch_size_ = reading.batch_size = std::max<uint32_t>(1, job.data().batch_size());
  reading.threads = data_options.threads;
  COHORT_ASSIGN_OR_RETURN(predictor->batches_,
                          BatchReader::Leased(predictor->dataset_, spec, reading));
  COHORT_ASSIGN_OR_RETURN(predictor->model_,
                          RestoredModel::Create(std::move(built.predict), data_options.threads));
  COHORT_RETURN_IF_ERROR(predictor->model_->Restore(*reader, UsesOfAveragesIn(job).evaluation, {}));

  PartDescription& whole = predictor->whole_;
  whole.end = whole.records = predictor->dataset_->num_records();
  whole.checkpoint = checkpoint;
  whole.state = StateOf(reader->manifest());
  whole.data = predictor->dataset_->fingerprint().SerializeAsString();
  whole.columns = ColumnsOf(predictor->model_->executable().program());
  return predictor;
}

PartDescription Predictor::Describe(PartNumber number) const {
  const uint64_t batches = (whole_.records + batch_size_ - 1) / batch_size_;
  const auto first_record_of = [&](int part) {
    const uint64_t batch =
        batches * static_cast<uint64_t>(part) / static_cast<uint64_t>(number.count);
    return std::min(whole_.records, batch * batch_size_);
  };
  PartDescription part = whole_;
  part.number = number;
  part.begin = first_record_of(number.index);
  part.end = first_record_of(number.index + 1);
  return part;
}

absl::Status Predictor::Predict(const PartDescription& part, PartWriter* writer) {
  const auto end_of = [&](uint64_t begin) { return std::min(part.end, begin + batch_size_); };
  for (uint64_t at = part.begin; at < part.end; at = end_of(at)) {
    batches_->Announce(0, at, end_of(at));
  }
  BatchReader::Batch batch;
  std::vector<Tensor> outputs(part.columns.size());
  for (uint64_t at = part.begin; at < part.end; at = end_of(at)) {
    COHORT_RETURN_IF_ERROR(batches_->Read(0, at, end_of(at), &batch));
    COHORT_RETURN_IF_ERROR(model_->Run(batch.tensors));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = model_->executable().output(i);
    COHORT_RETURN_IF_ERROR(writer->Append(outputs));
  }
  return absl::OkStatus();
}

}  // namespace cohort
