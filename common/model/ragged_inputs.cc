#include "common/model/ragged_inputs.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/list_padding.h"
#include "common/data/source_class.h"
#include "common/model/layer_graph.h"
#include "common/model/layers/layer_names.h"
#include "common/model/row_keys.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

struct RaggedColumn {
  std::string name;
  int64_t max_length = 0;
  bool ids = false;  // else weights
};

absl::StatusOr<RaggedColumn> ColumnOf(const Config& input, const std::string& layer) {
  if (!input.Ints("shape").empty()) {
    return InvalidArgument("ragged: the lists have no shape: leave `shape` out");
  }
  if (input.IsNone("max_length")) {
    return InvalidArgument("ragged: it needs `max_length`, the length of the longest list");
  }
  const std::string dtype = input.Has("dtype") ? input.String("dtype") : "";
  if (!dtype.starts_with("int") && !dtype.starts_with("float")) {
    return InvalidArgument("ragged: it needs `dtype`: int64 for ids, float32 for weights");
  }
  return RaggedColumn{input.Has("feature") ? input.String("feature") : layer,
                      input.Int("max_length"), dtype.starts_with("int")};
}

// Sets how the source pads the column.
absl::Status PadColumn(const RaggedColumn& column, const std::string& floatx,
                       v1::ClassConfig* source) {
  COHORT_ASSIGN_OR_RETURN(const SourceClass* found, Sources().Find(source->class_name()));
  const bool has_lists = found->schema.Find("lists") != nullptr;
  const char* const argument = has_lists                                   ? "lists"
                               : found->schema.Find("columns") != nullptr  ? "columns"
                               : found->schema.Find("features") != nullptr ? "features"
                                                                           : nullptr;
  if (argument == nullptr) {
    return InvalidArgument(
        "ragged: the source {} has no lists; csv, json_lines, parquet and "
        "tfrecord have them",
        found->schema.name);
  }
  v1::ConfigValue& given = (*source->mutable_config())[argument];
  if (!has_lists && !given.has_object()) {
    return InvalidArgument("ragged: give the source {} its `{}`", found->schema.name, argument);
  }
  v1::ConfigValue& entry = (*given.mutable_object()->mutable_config())[column.name];
  v1::ClassConfig& list = *entry.mutable_object();
  if (list.class_name().empty()) list.set_class_name(has_lists ? "numbers" : "tensor");
  if (list.class_name() == "words") {
    return InvalidArgument("ragged: column \"{}\" holds lists of words, and ids are numbers",
                           PrintableLine(column.name));
  }
  auto& arguments = *list.mutable_config();
  arguments["pad_with"] = ConfigOf(column.ids ? static_cast<double>(kNoId) : kNoWeight);
  if (has_lists) {
    arguments["length"] = ConfigOf(column.max_length);
  } else {
    arguments["shape"] = ConfigOf(std::vector<int64_t>{column.max_length});
    arguments["dtype"] = ConfigOf(column.ids ? std::string_view("int64") : floatx);
  }
  COHORT_ASSIGN_OR_RETURN(*source, CompleteConfig(Sources(), *source));
  return absl::OkStatus();
}

// Makes the source pad the columns of all ragged Inputs.
absl::Status PadColumnsOf(const v1::JobSpec& job, const JobLines& lines, v1::ClassConfig* source) {
  LayerNames names;
  const std::string floatx = job.model().dtype().empty() ? "float32" : job.model().dtype();
  for (int i = 0; i < job.model().layers_size(); ++i) {
    const v1::LayerSpec& layer = job.model().layers(i);
    std::string name = layer.name();
    if (name.empty() && layer.shares().empty()) name = names.Next(layer.class_name());
    const auto ragged = layer.config().find("ragged");
    if (layer.class_name() != "Input" || ragged == layer.config().end() || !ragged->second.b()) {
      continue;
    }
    const auto pad = [&]() -> absl::Status {
      v1::ClassConfig config;
      *config.mutable_config() = layer.config();
      COHORT_ASSIGN_OR_RETURN(const RaggedColumn column, ColumnOf(Config(config), name));
      return PadColumn(column, floatx, source);
    };
    COHORT_RETURN_IF_ERROR(Annotate(pad(), lines.Where(fmt::format("model.layers[{}]", i))));
  }
  return absl::OkStatus();
}

bool IsRagged(const GraphLayer& layer) {
  return layer.feature >= 0 && Config(layer.config).Bool("ragged");
}

}  // namespace

absl::Status PadRaggedColumns(v1::JobSpec* job, const JobLines& lines) {
  const v1::JobSpec& as_given = *job;
  v1::DataSpec* const data = job->mutable_data();
  COHORT_RETURN_IF_ERROR(
      PadColumnsOf(as_given, lines, data->mutable_train()->mutable_source_class()));
  if (!data->validation().has_source_class()) return absl::OkStatus();
  return PadColumnsOf(as_given, lines, data->mutable_validation()->mutable_source_class());
}

absl::Status PadRaggedColumnsOf(const v1::JobSpec& job, v1::ClassConfig* source) {
  return PadColumnsOf(job, JobLines(), source);
}

absl::Status CheckRaggedInputs(const LayerGraph& graph, size_t layer) {
  const GraphLayer& reader = graph.layers[layer];
  size_t ragged = 0;
  for (const int input : reader.inputs) {
    const GraphLayer& from = graph.layers[static_cast<size_t>(input)];
    if (!IsRagged(from)) continue;
    ++ragged;
    if (TakesLists(*reader.layer_class)) continue;
    return InvalidArgument("its input \"{}\" is ragged, and only EmbeddingBag reads such lists",
                           PrintableLine(from.name));
  }
  if (ragged == 0 || ragged == reader.inputs.size()) return absl::OkStatus();
  return InvalidArgument("ids and weights must both be ragged, or neither of them");
}

}  // namespace cohort
