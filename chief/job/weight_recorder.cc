#include "chief/job/weight_recorder.h"

#include <absl/functional/function_ref.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/data/convert.h"
#include "common/report/summary_values.h"
#include "common/tensor/table_rows.h"

namespace cohort {
namespace {

constexpr uint64_t kBytesAtOnce = uint64_t{1} << 22;
// TensorBoard's projector shows no more points.
constexpr uint64_t kMostPoints = 100'000;
constexpr char kProjectorName[] = "projector_config.pbtxt";

// Calls `row` with the numbers of each row.
absl::Status ForEachRow(const CheckpointReader& reader, const LogicalTensor& tensor, uint64_t most,
                        absl::FunctionRef<void(std::span<const double>)> row) {
  const uint64_t rows = tensor.dims.empty() ? 1 : static_cast<uint64_t>(tensor.dims[0]);
  const auto elements = static_cast<uint64_t>(NumElements(tensor.dims));
  if (elements == 0) return absl::OkStatus();
  const uint64_t of_row = elements / rows;
  const uint64_t row_bytes = of_row * SizeOf(tensor.dtype);
  const uint64_t at_once = std::max<uint64_t>(1, kBytesAtOnce / row_bytes);
  std::vector<uint8_t> bytes;
  std::vector<double> numbers;
  for (uint64_t begin = 0; begin < std::min(rows, most); begin += at_once) {
    const uint64_t count = std::min(at_once, std::min(rows, most) - begin);
    bytes.resize(count * row_bytes);
    numbers.resize(count * of_row);
    COHORT_RETURN_IF_ERROR(
        reader.ReadRows(tensor.variable, tensor.slot, tensor.dtype, begin, count, bytes));
    ConvertNumbers(tensor.dtype, bytes.data(), DType::kFloat64, numbers.data(), numbers.size());
    for (uint64_t i = 0; i < count; ++i) {
      row(std::span<const double>(numbers).subspan(i * of_row, of_row));
    }
  }
  return absl::OkStatus();
}

}  // namespace

WeightRecorder::WeightRecorder(Options options)
    : options_(std::move(options)), events_(options_.log_dir + "/train", options_.clock) {}

// As in Keras, the first epoch has its turn.
bool WeightRecorder::TakeDue(uint64_t every, uint64_t epochs, uint64_t* last) {
  if (every == 0 || epochs == 0 || epochs == *last) return false;
  if (*last > 0 && epochs > *last && epochs < *last + every) return false;
  *last = epochs;
  return true;
}

void WeightRecorder::Committed(const std::string& checkpoint, uint64_t epochs, uint64_t step) {
  const bool histograms = TakeDue(options_.histograms_every, epochs, &last_histograms_);
  const bool embeddings = TakeDue(options_.embeddings_every, epochs, &last_embeddings_);
  if (!histograms && !embeddings) return;
  thread_.Post([this, checkpoint, step, histograms, embeddings] {
    const auto reader = CheckpointReader::Open(checkpoint, {.verify_checksums = false});
    absl::Status status = reader.status();
    if (status.ok() && histograms) status = WriteHistograms(**reader, step);
    if (status.ok() && embeddings) status = WriteEmbeddings(**reader);
    if (!status.ok()) options_.log->Failure(LogLevel::kWarning, "weights_not_reported", status);
  });
}

absl::Status WeightRecorder::WriteHistograms(const CheckpointReader& reader, uint64_t step) {
  std::vector<std::string> values;
  for (const auto& [key, tensor] : reader.tensors()) {
    if (!key.second.empty() || IsTable(tensor.dims)) continue;  // a slot, or no tensor
    Histogram histogram;
    COHORT_RETURN_IF_ERROR(ForEachRow(reader, tensor, UINT64_MAX, [&](std::span<const double> row) {
      for (const double number : row) histogram.AddRange(number);
    }));
    COHORT_RETURN_IF_ERROR(ForEachRow(reader, tensor, UINT64_MAX, [&](std::span<const double> row) {
      for (const double number : row) histogram.Add(number);
    }));
    values.push_back(HistogramValue(key.first + "/histogram", histogram));
  }
  return events_.AddValues(static_cast<int64_t>(step), values);
}

absl::Status WeightRecorder::WriteEmbeddings(const CheckpointReader& reader) const {
  std::string config;
  for (const std::string& name : options_.embeddings) {
    const LogicalTensor* const tensor = reader.Find(name, "");
    if (tensor == nullptr || IsTable(tensor->dims)) continue;
    std::string text;
    COHORT_RETURN_IF_ERROR(
        ForEachRow(reader, *tensor, kMostPoints, [&](std::span<const double> row) {
          for (size_t i = 0; i < row.size(); ++i) {
            text += fmt::format("{}{:.7g}", i == 0 ? "" : "\t", row[i]);
          }
          text += '\n';
        }));
    std::string file = name + ".tsv";
    std::replace(file.begin(), file.end(), '/', '_');
    COHORT_RETURN_IF_ERROR(WriteFileAtomically(JoinPath(options_.log_dir, file), text));
    config +=
        fmt::format("embeddings {{\n  tensor_name: \"{}\"\n  tensor_path: \"{}\"\n", name, file);
    if (!options_.metadata.empty()) {
      config += fmt::format("  metadata_path: \"{}\"\n", options_.metadata);
    }
    config += "}\n";
  }
  return WriteFileAtomically(JoinPath(options_.log_dir, kProjectorName), config);
}

}  // namespace cohort
