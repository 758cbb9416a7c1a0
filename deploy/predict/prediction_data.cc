#include "deploy/predict/prediction_data.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/data/dataset.h"
#include "common/data/source_class.h"
#include "common/model/ragged_inputs.h"
#include "proto/job.pb.h"

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

// Makes another kind of source than that of the job pad lists of different lengths, too. If it
// needs a list of its columns, it gets those of the Inputs.
absl::Status PadLists(const v1::JobSpec& job, const std::string& own, v1::DatasetSpec* dataset) {
  const auto& layers = job.model().layers();
  const auto is_ragged = [](const v1::LayerSpec& layer) {
    const auto ragged = layer.config().find("ragged");
    return layer.class_name() == "Input" && ragged != layer.config().end() && ragged->second.b();
  };
  if (std::none_of(layers.begin(), layers.end(), is_ragged)) return absl::OkStatus();
  v1::ClassConfig* const source = dataset->mutable_source_class();
  COHORT_ASSIGN_OR_RETURN(const SourceClass* source_class, Sources().Find(source->class_name()));
  const char* const columns = source_class->schema.Find("lists") != nullptr ? nullptr
                              : source->class_name() == "tfrecord"          ? "features"
                                                                            : "columns";
  if (columns != nullptr) {
    if (dataset->transforms_size() > 0) {
      return InvalidArgument(
          "the job has lists of different lengths, and transforms of the columns of {}: give the "
          "records to predict in files of {}, too",
          own, own);
    }
    std::map<std::string, std::string> dtypes;
    for (const v1::ColumnRead& read : dataset->reads()) dtypes[read.column()] = read.dtype();
    v1::ConfigValue& given = (*source->mutable_config())[columns];
    for (const v1::LayerSpec& layer : layers) {
      if (layer.class_name() != "Input" || is_ragged(layer)) continue;
      const auto feature = layer.config().find("feature");
      const bool named = feature != layer.config().end() && !feature->second.s().empty();
      const std::string name = named ? feature->second.s() : layer.name();
      v1::ClassConfig& column = *(*given.mutable_object()->mutable_config())[name].mutable_object();
      column.set_class_name("tensor");
      const bool is_integer = dtypes[name].starts_with("int");
      (*column.mutable_config())["dtype"] =
          ConfigOf(std::string_view(is_integer ? "int64" : "float32"));
      if (const auto shape = layer.config().find("shape"); shape != layer.config().end()) {
        (*column.mutable_config())["shape"] = shape->second;
      }
    }
    if (!given.has_object()) given.mutable_object();
  }
  return PadRaggedColumnsOf(job, source);
}

}  // namespace

absl::StatusOr<v1::DatasetSpec> RecordsToPredict(const v1::JobSpec& job, const std::string& data) {
  const bool validates = job.data().validation().has_source_class();
  if (data.empty() && !validates) {
    return UsageError("job '{}' has no validation set: name the data", job.name());
  }
  v1::DatasetSpec spec = validates ? job.data().validation() : job.data().train();
  const std::string own = spec.source_class().class_name();
  if (!data.empty()) COHORT_RETURN_IF_ERROR(SetData(data, &spec));
  LeaveOutTargets(&spec);
  if (spec.source_class().class_name() != own) {
    COHORT_RETURN_IF_ERROR(Annotate(PadLists(job, own, &spec), data));
  }
  return spec;
}

}  // namespace cohort
