#include "evaluator/exporters.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "common/base/json_text.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/safetensors.h"
#include "common/checkpoint/shard_names.h"
#include "common/model/callbacks/averages.h"
#include "common/os/directory.h"
#include "common/tensor/table_rows.h"
#include "evaluator/checkpoint_evaluator.h"
#include "evaluator/restored_model.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

constexpr char kWeightsName[] = "model.safetensors";
constexpr char kJobName[] = "job.yaml";
constexpr char kEvaluationName[] = "metrics.json";
constexpr char kPartial[] = ".partial-";
constexpr uint64_t kBytesAtOnce = uint64_t{1} << 22;

// The exports of an exporter, the oldest first.
std::vector<CheckpointId> ExportsIn(const std::string& directory) {
  std::vector<CheckpointId> exports;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (const auto id = CheckpointId::Parse(entry.path().filename().string())) {
      exports.push_back(*id);
    }
  }
  std::ranges::sort(exports);
  return exports;
}

// The metric that tells the best export, as the evaluation names it.
std::string MetricOf(const v1::JobSpec& job) {
  const std::string& best = job.checkpoint().keep_best();
  return best.starts_with("val_") ? best.substr(4) : "loss";
}

std::optional<double> ValueOf(const MetricsRecord& evaluation, const std::string& name) {
  for (const auto& [metric, value] : evaluation.metrics) {
    if (metric == name && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

// The value of an export that was written before.
std::optional<double> ExportedValue(const std::string& directory, const std::string& name) {
  const auto text = ReadFile(JoinPath(directory, kEvaluationName), /*max_bytes=*/1 << 20);
  if (!text.ok()) return std::nullopt;
  const auto json = ParseJsonText(*text);
  if (!json.ok()) return std::nullopt;
  const nlohmann::json* const value = FindMember(*json, name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

// Appends the rows of a table without bounds that exist, or their keys, in the order of the
// checkpoint.
absl::Status AppendTable(const CheckpointReader& reader, const LogicalTensor& tensor, bool keys,
                         SafetensorsWriter* writer) {
  const std::string slots[] = {tensor.slot};
  std::vector<int64_t> numbers;
  return reader.ReadTable(
      tensor.variable, kKeysSlot, slots, 0, static_cast<uint64_t>(kTableRows),
      [&](std::span<const int64_t> rows, std::span<const std::span<const uint8_t>> tensors) {
        if (!keys) return writer->Append(tensors[0].data(), tensors[0].size());
        numbers.clear();
        for (const int64_t row : rows) numbers.push_back(KeyOfRow(row));
        return writer->Append(reinterpret_cast<const uint8_t*>(numbers.data()),
                              numbers.size() * sizeof(int64_t));
      });
}

absl::Status AppendTensor(const CheckpointReader& reader, const LogicalTensor& tensor,
                          SafetensorsWriter* writer) {
  const uint64_t rows = tensor.dims.empty() ? 1 : static_cast<uint64_t>(tensor.dims[0]);
  const uint64_t elements = static_cast<uint64_t>(NumElements(tensor.dims));
  const uint64_t row_bytes = rows == 0 ? 0 : elements / rows * SizeOf(tensor.dtype);
  const uint64_t at_once = std::max<uint64_t>(1, kBytesAtOnce / std::max<uint64_t>(row_bytes, 1));
  std::vector<uint8_t> bytes;
  for (uint64_t begin = 0; begin < rows; begin += at_once) {
    const uint64_t count = std::min(at_once, rows - begin);
    bytes.resize(count * row_bytes);
    COHORT_RETURN_IF_ERROR(
        reader.ReadRows(tensor.variable, tensor.slot, tensor.dtype, begin, count, bytes));
    COHORT_RETURN_IF_ERROR(writer->Append(bytes.data(), bytes.size()));
  }
  return absl::OkStatus();
}

absl::Status WriteWeights(const CheckpointReader& reader, const std::string& path) {
  struct Part {
    const LogicalTensor* tensor;
    bool keys;
  };
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<Part> parts;
  const bool averages = UsesOfAveragesIn(reader.manifest().job_spec()).exports;
  for (const auto& [key, tensor] : reader.tensors()) {
    if (!key.second.empty()) continue;
    const LogicalTensor* const read =
        reader.Find(key.first, SlotToRead(reader, key.first, averages));
    COHORT_ASSIGN_OR_RETURN(const uint64_t rows, reader.TableSize(key.first));
    entries.push_back({key.first, tensor.dtype,
                       IsTable(tensor.dims) ? PieceDims(tensor.dims, rows) : tensor.dims});
    parts.push_back({read, false});
    if (!IsTable(tensor.dims)) continue;
    entries.push_back(
        {fmt::format("{}@{}", key.first, kKeysSlot), DType::kInt64, {static_cast<int64_t>(rows)}});
    parts.push_back({read, true});
  }
  COHORT_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(path, entries, {}));
  for (const Part& part : parts) {
    COHORT_RETURN_IF_ERROR(IsTable(part.tensor->dims)
                               ? AppendTable(reader, *part.tensor, part.keys, writer.get())
                               : AppendTensor(reader, *part.tensor, writer.get()));
  }
  return writer->Finish().status();
}

}  // namespace

absl::StatusOr<std::string> Exporters::Write(const std::string& exporter, const std::string& name,
                                             const CheckpointReader& reader,
                                             const MetricsRecord& evaluation) const {
  const std::string parent = JoinPath(options_.directory, exporter);
  const std::string path = JoinPath(parent, name), partial = JoinPath(parent, kPartial + name);
  std::error_code error;
  fs::remove_all(partial, error);
  COHORT_RETURN_IF_ERROR(MakeDirectories(partial));
  COHORT_RETURN_IF_ERROR(WriteWeights(reader, JoinPath(partial, kWeightsName)));
  const v1::Manifest& manifest = reader.manifest();
  COHORT_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(partial, kJobName), manifest.job_yaml()));
  const auto micros = static_cast<int64_t>(manifest.unix_micros());
  COHORT_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(partial, kEvaluationName),
                                             ToJsonLine(evaluation, micros) + "\n"));
  fs::remove_all(path, error);
  fs::rename(partial, path, error);
  if (error) return Unavailable("{} cannot be made: {}", path, error.message());
  return path;
}

void Exporters::DeleteOld(const std::string& exporter) const {
  const std::string parent = JoinPath(options_.directory, exporter);
  const std::vector<CheckpointId> exports = ExportsIn(parent);
  for (size_t i = 0; i + options_.keep < exports.size(); ++i) {
    std::error_code ignored;
    fs::remove_all(JoinPath(parent, exports[i].ToString()), ignored);
  }
}

bool Exporters::IsBest(const v1::JobSpec& job, const MetricsRecord& evaluation) const {
  const std::string metric = MetricOf(job), parent = JoinPath(options_.directory, "best");
  const auto value = ValueOf(evaluation, metric);
  if (!value.has_value()) return false;
  const std::vector<CheckpointId> before = ExportsIn(parent);
  if (before.empty()) return true;
  const auto best = ExportedValue(JoinPath(parent, before.back().ToString()), metric);
  if (!best.has_value()) return true;
  return job.checkpoint().mode() == "max" ? *value > *best : *value < *best;
}

absl::StatusOr<std::vector<std::string>> Exporters::Export(const CheckpointEntry& checkpoint,
                                                           const MetricsRecord& evaluation) const {
  COHORT_ASSIGN_OR_RETURN(const auto reader,
                          CheckpointReader::Open(checkpoint.manifest, CheckpointReader::Options()));
  std::vector<std::string> written;
  for (const std::string& exporter : options_.names) {
    if (exporter == "final" && !reader->manifest().finished()) continue;
    if (exporter == "best" && !IsBest(reader->manifest().job_spec(), evaluation)) continue;
    COHORT_ASSIGN_OR_RETURN(std::string path,
                            Write(exporter, checkpoint.id.ToString(), *reader, evaluation));
    written.push_back(std::move(path));
    DeleteOld(exporter);
  }
  return written;
}

}  // namespace cohort
