#include "common/model/job_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "common/base/printable.h"
#include "common/model/column_reads.h"
#include "common/model/input_layers.h"
#include "common/model/job_check.h"
#include "common/model/job_defaults.h"
#include "common/model/job_reader.h"
#include "common/model/layers/layer_names.h"
#include "common/model/ragged_inputs.h"
#include "common/model/text_file.h"

namespace cohort {
namespace {

absl::Status ParseError(std::string_view file, const YAML::Exception& error) {
  const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
  // yaml-cpp reports BAD_FILE for nesting beyond its limit. A text cannot be a bad file otherwise.
  if (error.msg == YAML::ErrorMsg::BAD_FILE) {
    return InvalidArgument("{}:{}: lists or mappings are nested too deeply", file, line);
  }
  return InvalidArgument("{}:{}: not YAML: {}", file, line, error.msg);
}

// YAML 1.2 allows them, but the parser reads the whole file as one line.
bool HasOnlyCarriageReturns(std::string_view text) {
  const size_t first = text.find('\r');
  return first < text.size() - 1 && text.find('\n') == std::string_view::npos;
}

// Takes the classes from the job file, and the vocabularies that the job has learned from the
// dataset of the manifest.
void UpgradeDataset(const v1::DatasetSpec& file, v1::DatasetSpec* dataset) {
  const v1::DatasetSpec old = *dataset;
  *dataset->mutable_source_class() = file.source_class();
  *dataset->mutable_transforms() = file.transforms();
  for (int i = 0; i < std::min(old.transforms_size(), dataset->transforms_size()); ++i) {
    const auto& words = old.transforms(i).vocabulary();
    if (words.empty()) continue;
    v1::ClassConfig* const config = dataset->mutable_transforms(i)->mutable_transform_class();
    v1::ConfigValue& vocabulary = (*config->mutable_config())["vocabulary"];
    vocabulary.clear_value();
    for (const std::string& word : words) vocabulary.mutable_list()->add_values()->set_s(word);
  }
}

// The layers of a sequential model in the job file. Empty for a functional one.
std::vector<ModelLayer> LayersInOrder(const v1::ModelSpec& model) {
  std::vector<ModelLayer> layers;
  LayerNames names;
  for (const v1::LayerSpec& layer : model.layers()) {
    if (!layer.inputs().empty()) return {};
    if (!layer.shares().empty()) continue;
    const std::string& class_name = layer.class_name();
    layers.push_back({layer.name().empty() ? names.Next(class_name) : layer.name(), class_name, 0});
  }
  return layers;
}

absl::Status Read(std::string_view strategy, JobFile* job) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(job->yaml);
  const std::string& file = job->lines.file;
  if (documents.empty() || documents[0].IsNull()) {
    return InvalidArgument("{}:1: the file is empty", file);
  }
  if (documents.size() > 1) {
    return InvalidArgument("{}:{}: a job is one YAML document", file, documents[1].Mark().line + 1);
  }
  SetJobDefaults(&job->spec);
  JobReader reader(&job->lines);
  COHORT_RETURN_IF_ERROR(reader.ReadMessage(documents[0], "", &job->spec));
  if (!strategy.empty()) job->spec.mutable_strategy()->set_name(std::string(strategy));
  COHORT_RETURN_IF_ERROR(MoveInputLayers(&job->spec, &job->lines));
  CompleteDefaults(&job->spec);
  COHORT_RETURN_IF_ERROR(CheckJob(job->spec, job->lines));
  // Completes the Inputs of moved layers: a checkpoint's job has this form (UpgradeJob).
  CompleteClasses(&job->spec);
  job->layers = reader.TakeJsonLayers();
  if (job->layers.empty()) job->layers = LayersInOrder(job->spec.model());
  COHORT_RETURN_IF_ERROR(PadRaggedColumns(&job->spec, job->lines));
  SetColumnReads(&job->spec);
  return absl::OkStatus();
}

}  // namespace

std::string JobLines::Where(std::string_view path) const {
  for (;;) {
    const auto it = keys.find(path);
    if (it != keys.end()) return fmt::format("{}:{}", file, it->second);
    const size_t end = path.find_last_of(".[");
    if (end == std::string_view::npos) return fmt::format("{}:1", file);
    path = path.substr(0, end);
  }
}

absl::StatusOr<JobFile> ParseJob(std::string_view yaml, std::string_view file_name,
                                 std::string_view strategy) {
  JobFile job;
  job.yaml = std::string(yaml);
  job.lines.file = std::string(file_name);
  if (yaml.size() > kMaxTextBytes) {
    return InvalidArgument("{}:1: the file has {} bytes; a job has at most {}", file_name,
                           yaml.size(), kMaxTextBytes);
  }
  if (const size_t at = FindInvalidUtf8(yaml); at != yaml.npos) {
    const auto line = std::count(yaml.begin(), yaml.begin() + static_cast<ptrdiff_t>(at), '\n') + 1;
    return InvalidArgument("{}:{}: is not UTF-8 at the byte {:#04x}: save the file as UTF-8",
                           file_name, line, static_cast<uint8_t>(yaml[at]));
  }
  if (HasOnlyCarriageReturns(yaml)) {
    return InvalidArgument("{}:1: the lines end with CR alone: save the file with LF or CR LF",
                           file_name);
  }
  try {
    COHORT_RETURN_IF_ERROR(Read(strategy, &job));
  } catch (const YAML::Exception& error) {
    return ParseError(file_name, error);
  }
  return job;
}

absl::Status UpgradeJob(std::string_view yaml, v1::JobSpec* spec) {
  const v1::CompileSpec& compile = spec->compile();
  const bool has_loss = !compile.loss_class().class_name().empty() || !compile.losses().empty();
  const bool has_source = !spec->data().has_train() || spec->data().train().has_source_class();
  if (has_loss && has_source) {
    CompleteClasses(spec);
    return absl::OkStatus();
  }
  COHORT_ASSIGN_OR_RETURN(const JobFile job, ParseJob(yaml, "the job of the checkpoint"));
  if (!has_loss) {
    *spec->mutable_model() = job.spec.model();
    *spec->mutable_compile() = job.spec.compile();
    spec->mutable_strategy()->set_name(job.spec.strategy().name());
  }
  if (!has_source) {
    UpgradeDataset(job.spec.data().train(), spec->mutable_data()->mutable_train());
    if (spec->data().has_validation()) {
      UpgradeDataset(job.spec.data().validation(), spec->mutable_data()->mutable_validation());
    }
  }
  CompleteClasses(spec);
  return absl::OkStatus();
}

absl::StatusOr<JobFile> ReadJobFile(const std::string& path, std::string_view strategy) {
  COHORT_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a job file"));
  return ParseJob(text, path, strategy);
}

}  // namespace cohort
