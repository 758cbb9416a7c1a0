#include "common/weights/initial_weights.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/checkpoint/safetensors.h"
#include "common/tensor/table_rows.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr char kJobKey[] = "job";  // in the metadata of the file

absl::Status WriteTensors(const InitialWeights& weights,
                          std::span<const v1::VariableSpec> variables, const std::string& job,
                          const std::string& path) {
  const auto& loaded = weights.match.loaded;
  std::vector<SafetensorsWriter::Entry> entries;
  for (const WeightMatch::Pair& pair : loaded) {
    const v1::VariableSpec& variable = variables[pair.variable];
    COHORT_RETURN_IF_ERROR(AddEntries(*weights.source, pair.tensor, variable.name(),
                                      static_cast<DType>(variable.dtype()), &entries));
  }
  COHORT_ASSIGN_OR_RETURN(
      const std::unique_ptr<SafetensorsWriter> writer,
      SafetensorsWriter::Create(path, entries, {{"cohort", "initial values"}, {kJobKey, job}}));
  for (const WeightMatch::Pair& pair : loaded) {
    const auto dtype = static_cast<DType>(variables[pair.variable].dtype());
    COHORT_RETURN_IF_ERROR(AppendTo(weights.source.get(), pair.tensor, dtype, writer.get()));
  }
  return writer->Finish().status();
}

}  // namespace

absl::StatusOr<InitialWeights> FindInitialWeights(const v1::InitialWeightsSpec& spec,
                                                  const std::string& job_file,
                                                  std::span<const v1::VariableSpec> variables,
                                                  std::span<const ModelLayer> layers) {
  const std::filesystem::path path = std::filesystem::path(job_file).parent_path() / spec.path();
  InitialWeights weights;
  COHORT_ASSIGN_OR_RETURN(weights.source, OpenWeights(path.string()));
  COHORT_ASSIGN_OR_RETURN(weights.match, MatchWeights(spec, variables, layers, *weights.source));
  return weights;
}

absl::Status CheckInitialValues(const InitialWeights& weights,
                                std::span<const v1::VariableSpec> variables) {
  for (const WeightMatch::Pair& pair : weights.match.loaded) {
    const auto dtype = static_cast<DType>(variables[pair.variable].dtype());
    if (IsTable(variables[pair.variable].dims())) {
      COHORT_RETURN_IF_ERROR(weights.source->ReadTable(
          pair.tensor, dtype, [](auto, auto) { return absl::OkStatus(); }));
      continue;
    }
    COHORT_RETURN_IF_ERROR(weights.source->Read(pair.tensor, dtype).status());
  }
  return absl::OkStatus();
}

absl::Status WriteInitialValues(const InitialWeights& weights,
                                std::span<const v1::VariableSpec> variables, const std::string& job,
                                const std::string& path) {
  const std::string temporary = path + ".new";
  COHORT_RETURN_IF_ERROR(WriteTensors(weights, variables, job, temporary));
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus("cannot rename the new", path, errno);
  }
  return SyncDirectory(path.substr(0, path.find_last_of('/')));
}

absl::StatusOr<bool> HoldsInitialValues(const std::string& path, const std::string& job) {
  const auto reader = SafetensorsReader::Open(path);
  if (absl::IsNotFound(reader.status()) || absl::IsDataLoss(reader.status())) return false;
  COHORT_RETURN_IF_ERROR(reader.status());
  const auto& metadata = (*reader)->metadata();
  const auto it = metadata.find(kJobKey);
  return it != metadata.end() && it->second == job;
}

}  // namespace cohort
