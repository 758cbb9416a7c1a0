#include "deploy/launcher/inspect_checkpoint.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/best_checkpoint.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/manifest.h"
#include "common/data/dataset.h"
#include "common/model/job_file.h"
#include "common/model/layers/layer_names.h"
#include "common/placement/shard_plan.h"
#include "common/report/progress.h"
#include "common/tensor/table_rows.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

std::string Head(const std::string& path, const v1::Manifest& manifest) {
  const auto seconds = static_cast<std::time_t>(manifest.unix_micros() / 1'000'000);
  return fmt::format(
      "checkpoint: {}\n"
      "job:        {}\n"
      "step:       {}\n"
      "epochs:     {} finished{}\n"
      "written:    {:%Y-%m-%d %H:%M:%S} UTC by cohort {}\n"
      "order:      timeline {}, generation {}, cut {}\n",
      path, manifest.job(), manifest.step(), manifest.epoch(),
      manifest.finished() ? "; the job is done" : "", fmt::gmtime(seconds),
      manifest.cohort_version(), manifest.timeline(), manifest.generation(), manifest.cut());
}

// Returns the metric of this checkpoint's validation, and the best checkpoint of its job.
absl::StatusOr<std::string> Best(const std::string& chosen, const v1::Manifest& manifest,
                                 std::string* refused) {
  std::string text;
  if (manifest.has_validated()) {
    const v1::Validated& validated = manifest.validated();
    text =
        fmt::format("validated:  {}\n", FormatMetrics({{validated.metric(), validated.value()}}));
  }
  if (!manifest.has_best()) return text;
  if (manifest.best().checkpoint() == IdOf(manifest).ToString()) {
    return text + fmt::format("best:       this one ({})\n", BestText(manifest.best()));
  }
  const std::string directory = fs::path(chosen).parent_path().string();
  // It was deleted after a better one was committed, or it was not copied.
  std::error_code unknown;
  if (!fs::exists(fs::path(directory) / manifest.best().checkpoint(), unknown) && !unknown) {
    return text + fmt::format("best:       {} ({}), which no longer exists\n",
                              manifest.best().checkpoint(), BestText(manifest.best()));
  }
  COHORT_ASSIGN_OR_RETURN(const auto best,
                          BestOf(directory, manifest, RuleOf(manifest), LinesInto(refused)));
  return text + (best.has_value()
                     ? fmt::format("best:       {} ({})\n", best->checkpoint(), BestText(*best))
                     : "best:       none that is whole\n");
}

// Returns of which checkpoint an increment has the changes, and how many bytes its files have.
std::string Increment(const v1::Manifest& manifest) {
  if (manifest.base().empty()) return "";
  int64_t bytes = 0;
  for (const v1::SnapshotFile& file : manifest.files()) bytes += static_cast<int64_t>(file.bytes());
  return fmt::format("increment:  of {}, number {} since the last full one; {}\n", manifest.base(),
                     manifest.increments(), FormatBytes(bytes));
}

// Returns how many rows of a variable an increment has; "": all of them.
absl::StatusOr<std::string> Changes(const CheckpointReader& reader, const LogicalTensor& tensor) {
  size_t changed = 0;
  std::vector<int64_t> removed;
  const auto count = [&](std::span<const int64_t> rows, auto) {
    changed += rows.size();
    return absl::OkStatus();
  };
  COHORT_ASSIGN_OR_RETURN(const bool by_rows, reader.ReadChanges(tensor.variable, count, &removed));
  if (!by_rows) return "";
  return fmt::format("  {} rows changed{}", changed,
                     IsTable(tensor.dims) ? fmt::format(", {} removed", removed.size()) : "");
}

absl::StatusOr<std::string> Tensors(const CheckpointReader& reader) {
  std::string text = "variables:\n";
  for (const auto& [key, tensor] : reader.tensors()) {
    if (!tensor.slot.empty()) continue;
    const auto slots = reader.Slots(tensor.variable);
    text += fmt::format("  {}  {}", tensor.variable, DTypeName(tensor.dtype));
    if (IsTable(tensor.dims)) {
      COHORT_ASSIGN_OR_RETURN(const uint64_t rows, reader.TableSize(tensor.variable));
      Dims dims = tensor.dims;
      dims[0] = static_cast<int64_t>(rows);
      const int64_t bytes = NumElements(dims) * static_cast<int64_t>(SizeOf(tensor.dtype));
      text += fmt::format("{}, a table without bounds: {} rows, {} and as much per slot",
                          DimsToString(dims), rows, FormatBytes(bytes));
    } else {
      text += DimsToString(tensor.dims);
    }
    if (!slots.empty()) text += fmt::format("  slots: {}", fmt::join(slots, ", "));
    COHORT_ASSIGN_OR_RETURN(const std::string changes, Changes(reader, tensor));
    text += changes + "\n";
  }
  return text;
}

// Returns the positions at which the workers' readers continue (visitation independent).
std::string Readers(const v1::Manifest& manifest) {
  if (manifest.chief().readers().empty()) return "";
  std::string text = "readers (batches that each worker has had):\n";
  for (const v1::ReaderPositions& readers : manifest.chief().readers()) {
    text += fmt::format("  {} ", readers.resource());
    for (int i = 0; i < std::min(readers.workers_size(), readers.batches_size()); ++i) {
      text += fmt::format(" worker:{} {}", readers.workers(i), readers.batches(i));
    }
    text += "\n";
  }
  return text;
}

std::string Files(const v1::Manifest& manifest) {
  std::string text = "files (checksums agree):\n";
  for (const v1::SnapshotFile& file : manifest.files()) {
    text += fmt::format("  {}  {}\n", file.name(), FormatBytes(static_cast<int64_t>(file.bytes())));
  }
  return text;
}

// Returns the words that the job has learned, or that its file lists.
std::string Words(const v1::Manifest& manifest) {
  std::string text;
  for (const v1::WordsFile& file : manifest.words()) {
    text += fmt::format("  {}  {} words, {}:", file.name(), file.words(),
                        FormatBytes(static_cast<int64_t>(file.bytes())));
    for (const v1::WordsPlace& place : file.places()) {
      text += fmt::format(" data.{}.transforms[{}].{}", place.validation() ? "validation" : "train",
                          place.transform(), place.argument());
    }
    text += "\n";
  }
  return text;
}

std::string Others(const std::string& chosen) {
  const auto all = ListCheckpoints(fs::path(chosen).parent_path().string());
  if (!all.ok() || all->size() < 2) return "";
  std::string text = "beside it:\n";
  for (const CheckpointEntry& entry : *all) {
    if (fs::path(entry.directory).filename() != fs::path(chosen).filename()) {
      text += fmt::format("  {}\n", entry.id.ToString());
    }
  }
  return text;
}

// ---- InspectCheckpointJson

using Json = nlohmann::ordered_json;

Json ConfigJson(const v1::ConfigValue& value);

// In the order of their names, because maps of protobuf have none.
Json ArgumentsJson(const google::protobuf::Map<std::string, v1::ConfigValue>& arguments) {
  std::map<std::string, const v1::ConfigValue*> sorted;
  for (const auto& [name, value] : arguments) sorted[name] = &value;
  Json json = Json::object();
  for (const auto& [name, value] : sorted) json[name] = ConfigJson(*value);
  return json;
}

Json ConfigJson(const v1::ConfigValue& value) {
  switch (value.value_case()) {
    case v1::ConfigValue::kB:
      return value.b();
    case v1::ConfigValue::kI:
      return value.i();
    case v1::ConfigValue::kF:
      return value.f();
    case v1::ConfigValue::kS:
      return value.s();
    case v1::ConfigValue::kList: {
      Json list = Json::array();
      for (const v1::ConfigValue& item : value.list().values()) list.push_back(ConfigJson(item));
      return list;
    }
    case v1::ConfigValue::kObject:
      return {{"class_name", value.object().class_name()},
              {"config", ArgumentsJson(value.object().config())}};
    default:
      return nullptr;
  }
}

template <typename Repeated>
Json ListJson(const Repeated& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(item);
  return list;
}

Json ModelJson(const v1::ModelSpec& model) {
  const bool sequential =
      std::none_of(model.layers().begin(), model.layers().end(),
                   [](const v1::LayerSpec& layer) { return layer.inputs_size() > 0; });
  LayerNames names;
  Json layers = Json::array();
  std::string last;
  for (const v1::LayerSpec& layer : model.layers()) {
    Json inputs = ListJson(layer.inputs());
    if (sequential && !last.empty()) inputs.push_back(last);
    last = layer.name().empty() ? names.Next(layer.class_name()) : layer.name();
    layers.push_back({{"class_name", layer.class_name()},
                      {"name", last},
                      {"inputs", std::move(inputs)},
                      {"shares", layer.shares()},
                      {"masks", ListJson(layer.masks())},
                      {"config", ArgumentsJson(layer.config())}});
  }
  Json outputs = ListJson(model.outputs());
  if (outputs.empty()) outputs.push_back(last);
  return {
      {"name", model.name().empty() ? (sequential ? "sequential" : "functional") : model.name()},
      {"dtype", model.dtype()},
      {"outputs", std::move(outputs)},
      {"output_names", ListJson(model.output_names())},
      {"functional", std::move(layers)}};
}

Json TransformsJson(const v1::DatasetSpec& dataset) {
  Json transforms = Json::array();
  for (const v1::ColumnTransform& transform : dataset.transforms()) {
    transforms.push_back(
        {{"column", transform.column()},
         {"columns", ListJson(transform.columns())},
         {"output", transform.output().empty() ? transform.column() : transform.output()},
         {"dtype", transform.dtype()},
         {"class_name", transform.transform_class().class_name()},
         {"config", ArgumentsJson(transform.transform_class().config())}});
  }
  return transforms;
}

}  // namespace

absl::StatusOr<std::string> InspectCheckpoint(const std::string& path) {
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string directory, FindCheckpoint(path, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(directory, {}));
  const v1::Manifest& manifest = reader->manifest();
  COHORT_ASSIGN_OR_RETURN(const std::string best, Best(directory, manifest, &refused));
  COHORT_ASSIGN_OR_RETURN(const std::string tensors, Tensors(*reader));
  return fmt::format("{}{}{}{}{}{}shard plan:\n{}{}{}{}", refused, Head(directory, manifest),
                     Increment(manifest), best, Readers(manifest), tensors,
                     ShardPlanText(manifest.layout()), Files(manifest), Words(manifest),
                     Others(directory));
}

absl::StatusOr<std::string> InspectCheckpointJson(const std::string& path) {
  std::string refused;
  COHORT_ASSIGN_OR_RETURN(const std::string directory, FindCheckpoint(path, &refused));
  COHORT_ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(directory, {}));
  const v1::Manifest& manifest = reader->manifest();
  v1::JobSpec job = manifest.job_spec();
  if (job.model().layers().empty()) {
    return InvalidArgument("{}: a chief of the user's own wrote it, and it has no model",
                           directory);
  }
  COHORT_RETURN_IF_ERROR(UpgradeJob(manifest.job_yaml(), &job));
  Json reads = Json::array();
  for (const v1::ColumnRead& read : job.data().train().reads()) {
    reads.push_back({{"column", read.column()}, {"dtype", read.dtype()}});
  }
  Json variables = Json::array();
  for (const v1::VariableSpec& variable : manifest.layout().variables()) {
    variables.push_back({{"name", variable.name()},
                         {"shape", ListJson(variable.dims())},
                         {"dtype", std::string(DTypeName(static_cast<DType>(variable.dtype())))},
                         {"trainable", variable.trainable()}});
  }
  const Json json = {{"checkpoint", directory},
                     {"job", job.name()},
                     {"step", manifest.step()},
                     {"epoch", manifest.epoch()},
                     {"model", ModelJson(job.model())},
                     {"transforms", TransformsJson(job.data().train())},
                     {"reads", std::move(reads)},
                     {"targets", ListJson(TargetsOf(job.data().train()))},
                     {"batch_size", job.data().batch_size()},
                     {"variables", std::move(variables)}};
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cohort
