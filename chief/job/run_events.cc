#include "chief/job/run_events.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "common/model/callbacks/callback.h"
#include "common/report/summary_values.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

// The settings that people vary from run to run. A layer's are in the graph.
bool IsHparam(std::string_view key) {
  constexpr std::array<std::string_view, 7> kPrefixes = {
      "compile.loss",    "compile.optimizer",          "data.batch_size", "data.global_batch_size",
      "mixed_precision", "strategy.closures_per_step", "strategy.mode"};
  return key == "seed" || key == "fit.epochs" ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
}

Hparam HparamOf(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0') return number;
  return text;
}

}  // namespace

std::optional<TensorBoardSettings> TensorBoardOf(const v1::JobSpec& job) {
  for (const v1::ClassConfig& callback : job.fit().callbacks()) {
    if (callback.class_name() != "TensorBoard") continue;
    const Config config(callback);
    return TensorBoardSettings{
        .graph = config.Bool("write_graph"),
        .histograms_every = static_cast<uint64_t>(config.Int("histogram_freq")),
        .embeddings_every = static_cast<uint64_t>(config.Int("embeddings_freq")),
        .metadata =
            config.IsNone("embeddings_metadata") ? "" : config.String("embeddings_metadata")};
  }
  return std::nullopt;
}

void RunEvents::Note(const absl::Status& status) const {
  if (!status.ok()) log_->Failure(LogLevel::kWarning, "report_failed", status);
}

void RunEvents::Begin(const JobKeys& keys) {
  std::map<std::string, Hparam> hparams;
  for (const auto& [key, value] : keys) {
    if (IsHparam(key)) hparams[key] = HparamOf(value);
  }
  Note(run_.AddValues(0, {HparamsBegin(hparams, static_cast<double>(clock_->UnixMicros()) / 1e6)}));
}

void RunEvents::End() {
  Note(run_.AddValues(0, {HparamsEnd(static_cast<double>(clock_->UnixMicros()) / 1e6)}));
}

void RunEvents::WriteGraph(const ModelSummary& model) {
  std::vector<GraphNode> nodes;
  for (const ModelSummary::Row& row : model.rows) {
    nodes.push_back({.name = row.name,
                     .op = row.class_name,
                     .inputs = row.connected_to,
                     .device = row.device,
                     .dims = row.dims,
                     .params = row.params});
  }
  EventFileWriter graph(log_dir_ + "/train", clock_);
  Note(graph.AddGraph(GraphDefOf(nodes)));
}

}  // namespace cohort
