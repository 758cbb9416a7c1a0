#include "deploy/predict/predict.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/find_checkpoint.h"
#include "common/data/dataset.h"
#include "common/data/source_class.h"
#include "common/model/callbacks/averages.h"
#include "common/model/model_builder.h"
#include "deploy/predict/prediction_file.h"
#include "evaluator/restored_model.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

// The ending of a file's name, without that of gzip or zstd.
std::string EndingOf(const std::string& name) {
  std::filesystem::path path(name);
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension().string();
}

// The source that reads a file of this name; "" if the name does not tell.
std::string SourceOf(const std::string& name) {
  const std::string own = EndingOf(name);
  const std::pair<const char*, const char*> sources[] = {
      {".csv", "csv"},       {".tsv", "csv"},   {".jsonl", "json_lines"}, {".ndjson", "json_lines"},
      {".npz", "npz"},       {".npy", "npy"},   {".parquet", "parquet"},  {".tfrecord", "tfrecord"},
      {".libsvm", "libsvm"}, {".svm", "libsvm"}};
  for (const auto& [ending, source] : sources) {
    if (own == ending) return source;
  }
  return "";
}

// The .npy files of a folder by their names; none if `path` is no folder or has none.
std::vector<std::string> ArraysIn(const std::string& path) {
  std::vector<std::string> files;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(path, none)) {
    if (entry.path().extension() == ".npy") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The data set of the job with this file in place of its own. Further arguments of the source stay
// if the file is of the same kind.
absl::Status SetData(const std::string& data, v1::DatasetSpec* dataset) {
  const std::string path = std::filesystem::absolute(data).string();
  const std::string own = dataset->source_class().class_name();
  const std::vector<std::string> arrays = ArraysIn(path);
  const std::string source = !arrays.empty()          ? "npy"
                             : SourceOf(data).empty() ? own
                                                      : SourceOf(data);
  v1::ClassConfig config;
  if (source == own) config = dataset->source_class();
  config.set_class_name(source);
  COHORT_ASSIGN_OR_RETURN(const SourceClass* source_class, Sources().Find(source));
  auto& arguments = *config.mutable_config();
  for (const char* old : {"path", "files", "directory", "sha256", "url", "arrays"}) {
    arguments.erase(old);
  }
  if (source == "npy") arguments.erase("columns");
  const std::string ending = EndingOf(data);
  if (ending == ".tsv") arguments["delimiter"] = ConfigOf(std::string_view("\t"));
  if (ending == ".csv" && arguments.contains("delimiter") && arguments["delimiter"].s() == "\t") {
    arguments.erase("delimiter");
  }
  if (source_class->schema.Find("files") != nullptr) {
    arguments["files"] = ConfigOf(arrays.empty() ? std::vector<std::string>{path} : arrays);
  } else if (source_class->schema.Find("path") != nullptr) {
    arguments["path"] = ConfigOf(std::string_view(path));
  } else if (source_class->schema.Find("directory") != nullptr) {
    arguments["directory"] = ConfigOf(std::string_view(path));
  } else {
    return InvalidArgument(
        "{}: the job reads its data by the source {}, which takes no other file: give the records "
        "as .csv, .jsonl, .npy, .npz, .parquet or .tfrecord",
        data, source);
  }
  COHORT_ASSIGN_OR_RETURN(*dataset->mutable_source_class(), CompleteConfig(Sources(), config));
  // A prediction for each record.
  dataset->clear_skip();
  dataset->clear_take();
  dataset->clear_filter();
  return absl::OkStatus();
}

// Labels and weights may be missing, so nothing is made of them.
void LeaveOutTargets(v1::DatasetSpec* dataset) {
  const std::vector<std::string> names = TargetsOf(*dataset);
  const std::set<std::string> targets(names.begin(), names.end());
  auto* const transforms = dataset->mutable_transforms();
  transforms->erase(std::remove_if(transforms->begin(), transforms->end(),
                                   [&](const v1::ColumnTransform& transform) {
                                     return targets.contains(transform.output().empty()
                                                                 ? transform.column()
                                                                 : transform.output());
                                   }),
                    transforms->end());
  auto* const reads = dataset->mutable_reads();
  reads->erase(
      std::remove_if(reads->begin(), reads->end(),
                     [&](const v1::ColumnRead& read) { return targets.contains(read.column()); }),
      reads->end());
  dataset->clear_label();
  dataset->clear_labels();
  dataset->clear_sample_weight();
  dataset->set_shuffle(false);
  dataset->set_drop_remainder(false);
}

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

// The columns of the data, and the labels and weights that the job names, which no prediction
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

}  // namespace

absl::StatusOr<std::string> Predict(const PredictOptions& options) {
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string checkpoint,
                          FindCheckpoint(options.checkpoint, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(checkpoint, {}));
  v1::JobSpec job = reader->manifest().job_spec();
  COHORT_RETURN_IF_ERROR(UpgradeJob(reader->manifest().job_yaml(), &job));
  DataOptions data_options;
  data_options.data_dir = options.data_dir;
  data_options.threads = options.threads > 0
                             ? options.threads
                             : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  COHORT_RETURN_IF_ERROR(ResolveVocabularies(job.mutable_data(), data_options));
  const bool validates = job.data().validation().has_source_class();
  if (options.data.empty() && !validates) {
    return UsageError("job '{}' has no validation set: name the data", job.name());
  }
  v1::DatasetSpec spec = validates ? job.data().validation() : job.data().train();
  if (!options.data.empty()) COHORT_RETURN_IF_ERROR(SetData(options.data, &spec));
  LeaveOutTargets(&spec);
  COHORT_ASSIGN_OR_RETURN(const auto dataset, Dataset::Open(spec, data_options));
  COHORT_ASSIGN_OR_RETURN(const auto features, FeaturesFor(job, *dataset));
  COHORT_ASSIGN_OR_RETURN(BuiltModel built, BuildModel(job, features));

  // `features` names the labels last.
  std::vector<std::string> inputs(
      built.features.begin(),
      built.features.begin() + static_cast<int64_t>(built.predict.arguments.size()));
  BatchReader::Options reading;
  COHORT_ASSIGN_OR_RETURN(reading.features, dataset->FindFeatures(inputs));
  const uint64_t batch_size = reading.batch_size = std::max<uint32_t>(1, job.data().batch_size());
  reading.threads = data_options.threads;
  COHORT_ASSIGN_OR_RETURN(const auto batches, BatchReader::Leased(dataset, spec, reading));
  COHORT_ASSIGN_OR_RETURN(const auto model,
                          RestoredModel::Create(std::move(built.predict), data_options.threads));
  COHORT_RETURN_IF_ERROR(model->Restore(*reader, UsesOfAveragesIn(job).evaluation, {}));

  const Program& program = model->executable().program();
  std::vector<PredictionColumn> columns;
  for (const Output& output : program.outputs) {
    const ValueType& type = program.values[static_cast<size_t>(output.value)];
    PredictionColumn& column = columns.emplace_back(PredictionColumn{output.name, type.dtype, {}});
    for (size_t axis = 1; axis < type.dims.size(); ++axis) {
      column.dims.push_back(type.dims[axis].size);
    }
  }
  const uint64_t records = dataset->num_records();
  COHORT_ASSIGN_OR_RETURN(const auto file, PredictionFile::Create(options.out, columns, records));
  for (uint64_t at = 0; at < records; at += batch_size) {
    batches->Announce(0, at, std::min(records, at + batch_size));
  }
  BatchReader::Batch batch;
  std::vector<Tensor> outputs(columns.size());
  for (uint64_t at = 0; at < records; at += batch_size) {
    COHORT_RETURN_IF_ERROR(batches->Read(0, at, std::min(records, at + batch_size), &batch));
    COHORT_RETURN_IF_ERROR(model->Run(batch.tensors));
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = model->executable().output(i);
    COHORT_RETURN_IF_ERROR(file->Append(outputs));
  }
  COHORT_RETURN_IF_ERROR(file->Finish());
  return fmt::format("{}{}: predictions for {} records by {}\n", refused, options.out, records,
                     checkpoint);
}

}  // namespace cohort
